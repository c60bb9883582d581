# SPDX-License-Identifier: Apache-2.0
"""TLS in front of a port: tlsfront.py PORT CERT KEY TARGET LOG [MAX-VERSION]. Notes each handshake."""
import asyncio, ssl, sys

port, cert, key, target, log = int(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4]), open(sys.argv[5], "a", buffering=1)
c = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
c.load_cert_chain(cert, key)
if len(sys.argv) > 6: c.maximum_version = ssl.TLSVersion.TLSv1_2 if sys.argv[6] == "1.2" else ssl.TLSVersion.TLSv1_3


async def pump(a, b):
    try:
        while x := await a.read(65536):
            b.write(x)
            await b.drain()
    except (OSError, ssl.SSLError): pass
    finally: b.close()


async def one(r, w):
    log.write("handshake %s\n" % w.get_extra_info("ssl_object").version())
    try: r2, w2 = await asyncio.open_connection("127.0.0.1", target)
    except OSError:
        w.close()
        return
    await asyncio.gather(pump(r, w2), pump(r2, w))


async def main():
    s = await asyncio.start_server(one, "127.0.0.1", port, ssl=c, backlog=256)
    log.write("ready\n")
    await s.serve_forever()


asyncio.run(main())
