// SPDX-License-Identifier: Apache-2.0
// A WebSocket server on the library `ws`, over HTTP/1.1 and, on Node's HTTP/2, over RFC 8441: server.mjs PORT LOG CERT KEY.
import fs from 'node:fs'
import http2 from 'node:http2'
import WebSocket, { WebSocketServer } from 'ws'
const [port, log, cert, key] = process.argv.slice(2)
const tell = (...a) => fs.appendFileSync(log, a.join(' ') + '\n')
const serve = (ws, path, version, head) => {
	tell('handshake', path, version, 'auth=' + (head.authorization ?? '-'), 'extensions=' + (head['sec-websocket-extensions'] ?? '-'))
	ws.send('you sent ' + (head.authorization ?? '-'))
	ws.on('message', (m, binary) => { if (!binary && String(m).startsWith('login ')) tell('message', path, String(m)) })
	ws.on('message', (m, binary) => (!binary && String(m).startsWith('close ') ? ws.close(Number(String(m).slice(6)), 'as you wish') : ws.send(m, { binary })))
	ws.on('close', (code) => tell('closed', path, code))
	ws.on('error', (e) => tell('error', path, e.message))
}
const server = http2.createSecureServer({ cert: fs.readFileSync(cert), key: fs.readFileSync(key), allowHTTP1: true, settings: { enableConnectProtocol: true } })
const one = new WebSocketServer({ noServer: true, handleProtocols: (p) => (p.has('chat.v2') ? 'chat.v2' : false), perMessageDeflate: true })
server.on('upgrade', (req, socket, head) => one.handleUpgrade(req, socket, head, (ws) => serve(ws, req.url, 'HTTP/1.1', req.headers)))
server.on('stream', (stream, head) => {
	stream.on('error', (e) => tell('error', head[':path'], e.message))
	if (head[':method'] !== 'CONNECT' || head[':protocol'] !== 'websocket') return stream.respond({ ':status': 404 }, { endStream: true })
	const sub = (head['sec-websocket-protocol'] ?? '').split(/, */).includes('chat.v2')
	stream.respond({ ':status': 200, ...(sub ? { 'sec-websocket-protocol': 'chat.v2' } : {}) })
	const ws = new WebSocket(null, undefined, { autoPong: true })
	ws.setSocket(stream, Buffer.alloc(0), { maxPayload: 1 << 24, skipUTF8Validation: false, allowSynchronousEvents: true })
	serve(ws, head[':path'], 'HTTP/2', head)
})
server.listen(Number(port), '127.0.0.1', () => tell('up'))
