// SPDX-License-Identifier: Apache-2.0
// websocket.mjs ws|undici|agent|h2 BASE MARK. See tests/clients/README.md.
import http2 from 'node:http2'
const [how, base, mark] = process.argv.slice(2)
const protocols = ['chat.v1', 'chat.v2']
const at = (path) => `${base}${path}?${mark}`
// A WebSocket of `ws` on a stream of Node's HTTP/2.
async function overH2(path) {
	const { default: WebSocket } = await import('ws')
	const session = http2.connect(base.replace('wss:', 'https:'))
	await new Promise((ok, no) => { session.once('remoteSettings', ok); session.once('error', no) })
	if (!session.remoteSettings.enableConnectProtocol) throw new Error('no extended CONNECT')
	const stream = session.request({ ':method': 'CONNECT', ':protocol': 'websocket', ':scheme': 'https', ':authority': new URL(base).host, ':path': `${path}?${mark}`, 'sec-websocket-version': '13', 'sec-websocket-protocol': protocols.join(', '), 'sec-websocket-extensions': 'permessage-deflate' })
	const head = await new Promise((ok, no) => { stream.once('response', ok); stream.once('error', no) })
	if (head[':status'] !== 200) { stream.close(); session.close(); throw new Error('' + head[':status']) }
	const ws = new WebSocket(null, undefined, { autoPong: true })
	ws._isServer = false
	ws.setSocket(stream, Buffer.alloc(0), { maxPayload: 1 << 24, skipUTF8Validation: false, allowSynchronousEvents: true })
	ws.on('close', () => session.close())
	return { ws, subprotocol: head['sec-websocket-protocol'] }
}
async function open(path) {
	if (how === 'h2') return overH2(path)
	if (how === 'ws') {
		const { default: WebSocket } = await import('ws')
		const ws = new WebSocket(at(path), protocols)
		const first = []
		ws.on('message', (m, b) => first.push([m, b]))
		await new Promise((ok, no) => { ws.once('open', ok); ws.once('unexpected-response', (_, r) => no(new Error('' + r.statusCode))); ws.once('error', no) })
		ws.first = first
		return { ws, subprotocol: ws.protocol }
	}
	const { WebSocket, ProxyAgent } = await import('undici')
	const ws = new WebSocket(at(path), { protocols, ...(how === 'agent' ? { dispatcher: new ProxyAgent(process.env.https_proxy) } : {}) })
	ws.binaryType = 'arraybuffer'
	const first = []
	ws.addEventListener('message', (e) => first.push([Buffer.from(e.data), typeof e.data !== 'string']))
	await new Promise((ok, no) => { ws.addEventListener('open', ok, { once: true }); ws.addEventListener('error', () => no(new Error('error')), { once: true }) })
	ws.first = first
	return { ws, subprotocol: ws.protocol }
}
const { ws, subprotocol } = await open('/v1/ws')
const q = ws.first ?? []
if (!ws.first) ws.on('message', (m, b) => q.push([m, b]))
const closed = new Promise((ok) => (ws.on ? ws.on('close', (c) => ok(c)) : ws.addEventListener('close', (e) => ok(e.code))))
const next = async () => { while (q.length === 0) await new Promise((r) => setTimeout(r, 5)); return q.shift() }
console.log('me', String((await next())[0]))
console.log('subprotocol', subprotocol)
ws.send('grüße')
console.log('text', String((await next())[0]))
if (process.env.API_TOKEN) { ws.send('login ' + process.env.API_TOKEN); console.log('login', String((await next())[0])) }
const big = Buffer.alloc(1 << 20, 'large')
ws.send(big)
const [m, binary] = await next()
console.log('large', binary && Buffer.compare(Buffer.from(m), big) === 0)
if (ws.ping) { ws.ping('now'); console.log('pong', String(await new Promise((ok) => ws.once('pong', ok)))) }
ws.send('close 4711')
console.log('close', await closed)
try { await open('/v1/hidden'); console.log('refused', 'no') } catch (e) { console.log('refused', e.message) }
