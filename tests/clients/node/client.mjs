// SPDX-License-Identifier: Apache-2.0
// client.mjs fetch|undici|agent BASE MARK FILE: Node's own fetch, undici as it is, undici with a ProxyAgent.
import { createHash } from 'node:crypto';
import { createReadStream, readFileSync } from 'node:fs';

const [which, base, mark, file] = process.argv.slice(2);
let call = fetch;
if (which !== 'fetch') {
	const undici = await import('undici');
	if (which === 'agent') undici.setGlobalDispatcher(new undici.ProxyAgent(process.env.HTTPS_PROXY));
	call = undici.fetch;
}
const show = async (word, url, options) => {
	try {
		const r = await call(url, options);
		console.log(word, r.status, (await r.text()).trim());
	} catch (e) {
		console.log(word, 'error', e.message, e.cause?.message);
	}
};

await show('allowed', `${base}/v1/hello?${mark}`);
await show('refused', `${base}/v1/hello?${mark}`, { method: 'DELETE' });
await show('elsewhere', 'https://elsewhere.test/');
const body = await (await call(`${base}/v1/big?${mark}`)).arrayBuffer();
console.log('down', createHash('sha256').update(Buffer.from(body)).digest('hex'));
await show('up', `${base}/v1/up?${mark}`, { method: 'PUT', body: readFileSync(file) });
await show('chunked', `${base}/v1/up?${mark}`, { method: 'PUT', body: createReadStream(file), duplex: 'half' });
process.exit(0);
