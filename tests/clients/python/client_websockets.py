# SPDX-License-Identifier: Apache-2.0
import asyncio, os, sys, websockets
base, mark = sys.argv[1], sys.argv[2]


async def main():
    async with websockets.connect(f"{base}/v1/ws?{mark}", subprotocols=["chat.v1", "chat.v2"], max_size=1 << 24) as ws:
        print("me", await ws.recv())
        print("subprotocol", ws.subprotocol)
        await ws.send("grüße")
        print("text", await ws.recv())
        if "API_TOKEN" in os.environ:
            await ws.send("login " + os.environ["API_TOKEN"])
            print("login", await ws.recv())
        big = b"large" * 200000
        await ws.send(big)
        print("large", str(await ws.recv() == big).lower())
        await ws.send(["in ", "frag", "ments"])
        print("fragments", await ws.recv())
        await (await ws.ping(b"now"))
        print("pong now")
        await ws.send("close 4711")
        try:
            await ws.recv()
        except websockets.ConnectionClosed as e:
            print("close", e.rcvd.code if e.rcvd else "none")
    try:
        await websockets.connect(f"{base}/v1/hidden?{mark}")
        print("refused no")
    except websockets.InvalidHandshake as e:  # InvalidStatus since version 14, InvalidStatusCode before
        print("refused", e.response.status_code if hasattr(e, "response") else e.status_code)


asyncio.run(main())
