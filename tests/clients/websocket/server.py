# SPDX-License-Identifier: Apache-2.0
"""A WebSocket server on the library `websockets`: server.py PORT LOG [CERT KEY]. See tests/clients/README.md."""
import asyncio, ssl, sys, websockets
log = open(sys.argv[2], "w", 1)


async def serve(ws, path=None):
    asked = getattr(ws, "request", ws)  # a request of its own since version 14
    head = getattr(asked, "headers", None) or ws.request_headers
    print("handshake", asked.path, "auth=" + head.get("Authorization", "-"), "extensions=" + head.get("Sec-WebSocket-Extensions", "-"), file=log)
    await ws.send("you sent " + head.get("Authorization", "-"))
    try:
        async for m in ws:
            if isinstance(m, str) and m.startswith("login "):
                print("message", asked.path, m, file=log)
            if isinstance(m, str) and m.startswith("close "):
                await ws.close(int(m[6:]), "as you wish")
                break
            await ws.send(m)
    except websockets.ConnectionClosed:
        pass
    print("closed", asked.path, ws.close_code, file=log)


async def main():
    tls = None
    if len(sys.argv) > 3:
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(sys.argv[3], sys.argv[4])
    async with websockets.serve(serve, "127.0.0.1", int(sys.argv[1]), ssl=tls, subprotocols=["chat.v2"], max_size=1 << 24):
        print("up", file=log)
        await asyncio.Future()


asyncio.run(main())
