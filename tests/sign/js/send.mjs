// Sends one signed POST with each JavaScript client, as their manuals say, to the URL given.
import { createHash, createPrivateKey } from 'node:crypto'
import { fetch as signedFetch } from '@hellocoop/httpsig'
import { createSigner, httpbis } from 'http-message-signatures'

const [url, d, x, did] = process.argv.slice(2)
const jwk = { kty: 'OKP', crv: 'Ed25519', alg: 'Ed25519', d, x }
const body = JSON.stringify({ title: 'Hello', body: 'From JavaScript.' })

await signedFetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body,
    signingKey: jwk,
    signatureKey: { type: 'hwk' },
})

const request = {
    method: 'POST',
    url,
    headers: {
        'content-type': 'application/json',
        'content-digest': `sha-256=:${createHash('sha256').update(body).digest('base64')}:`,
    },
}
const key = createSigner(createPrivateKey({ key: jwk, format: 'jwk' }), 'ed25519', did)
const fields = ['@method', '@target-uri', 'content-digest']
const signed = await httpbis.signMessage({ key, fields, params: ['created', 'keyid', 'alg'] }, request)
await fetch(url, { ...signed, body })
