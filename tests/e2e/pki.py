# SPDX-License-Identifier: Apache-2.0
"""Certificates as no tool makes them: DER written here, keys and signatures by openssl. Used by tlsmatrix.py."""
import base64, os, subprocess, time

def run(*a, data=None):
    return subprocess.run(a, input=data, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=True).stdout

# --- DER
def tlv(tag, body):
    n = len(body)
    head = bytes([n]) if n < 128 else bytes([0x80 | (n.bit_length() + 7) // 8]) + n.to_bytes((n.bit_length() + 7) // 8, "big")
    return bytes([tag]) + head + body
def seq(*a): return tlv(0x30, b"".join(a))
def num(n): return tlv(2, n.to_bytes(n.bit_length() // 8 + 1, "big", signed=True))
def oid(text):
    p = [int(x) for x in text.split(".")]
    out = bytes([p[0] * 40 + p[1]])
    for v in p[2:]:
        b = [v & 127]
        while v > 127: v >>= 7; b.insert(0, v & 127 | 128)
        out += bytes(b)
    return tlv(6, out)
def octets(b): return tlv(4, b)
def bits(b, unused=0): return tlv(3, bytes([unused]) + b)
def utf8(s): return tlv(12, s if isinstance(s, bytes) else s.encode())
def name(cn, org=None):
    rdn = lambda o, v: tlv(0x31, seq(oid(o), utf8(v)))
    return seq(*([rdn("2.5.4.10", org)] if org else []), *([rdn("2.5.4.3", cn)] if cn else []))
def when(t):
    g = time.gmtime(t)
    return tlv(0x17, time.strftime("%y%m%d%H%M%SZ", g).encode()) if 1950 <= g.tm_year < 2050 else tlv(0x18, time.strftime("%Y%m%d%H%M%SZ", g).encode())

# --- extensions: (oid, critical, DER)
def basic(ca, pathlen=None): return ("2.5.29.19", True, seq(*([tlv(1, b"\xff")] if ca else []), *([num(pathlen)] if pathlen is not None else [])))
USAGE = {"sign": 0x80, "encipher": 0x20, "certsign": 0x04, "crlsign": 0x02}
def usage(*what):
    v = 0
    for w in what: v |= USAGE[w]
    return ("2.5.29.15", True, bits(bytes([v]), (v & -v).bit_length() - 1))
EKU = {"server": "1.3.6.1.5.5.7.3.1", "client": "1.3.6.1.5.5.7.3.2", "code": "1.3.6.1.5.5.7.3.3", "ocsp": "1.3.6.1.5.5.7.3.9"}
def eku(*what): return ("2.5.29.37", False, seq(*[oid(EKU[w]) for w in what]))
def dns(n): return tlv(0x82, n if isinstance(n, bytes) else n.encode())
def ipname(b): return tlv(0x87, bytes(b))
def san(*names, critical=False): return ("2.5.29.17", critical, seq(*names))
def constraints(permitted=(), excluded=()):
    part = lambda tag, l: [tlv(tag, b"".join(seq(n) for n in l))] if l else []
    return ("2.5.29.30", True, seq(*part(0xa0, permitted), *part(0xa1, excluded)))
MUST_STAPLE = ("1.3.6.1.5.5.7.1.24", False, seq(num(5)))
UNKNOWN_CRITICAL = ("1.3.6.1.4.1.99999.1", True, octets(b"?"))

# --- keys and signatures
SIG = {"ec": {"sha256": "1.2.840.10045.4.3.2", "sha1": "1.2.840.10045.4.1"},
       "rsa": {"sha256": "1.2.840.113549.1.1.11", "sha1": "1.2.840.113549.1.1.5", "md5": "1.2.840.113549.1.1.4"}}
class Key:
    def __init__(self, path, kind, *make):
        self.path, self.kind = path, kind
        if not os.path.exists(path): run("openssl", *make, "-out", path)
        self.spki = run("openssl", "pkey", "-in", path, "-pubout", "-outform", "DER")
    def pin(self):
        return "sha256/" + base64.b64encode(run("openssl", "dgst", "-sha256", "-binary", data=self.spki)).decode()
    def sign(self, tbs, md):
        if self.kind == "ed25519":
            with open(self.path + ".tbs", "wb") as f: f.write(tbs)
            return run("openssl", "pkeyutl", "-sign", "-rawin", "-inkey", self.path, "-in", self.path + ".tbs")
        if md == "pss":
            return run("openssl", "dgst", "-sha256", "-sign", self.path, "-sigopt", "rsa_padding_mode:pss", "-sigopt", "rsa_pss_saltlen:32", data=tbs)
        return run("openssl", "dgst", "-" + md, "-sign", self.path, data=tbs)
    def algorithm(self, md):
        if self.kind == "ed25519": return seq(oid("1.3.101.112"))
        if md == "pss":
            sha = seq(oid("2.16.840.1.101.3.4.2.1"), tlv(5, b""))
            return seq(oid("1.2.840.113549.1.1.10"), seq(tlv(0xa0, sha), tlv(0xa1, seq(oid("1.2.840.113549.1.1.8"), sha)), tlv(0xa2, num(32))))
        return seq(oid(SIG[self.kind][md]), *([tlv(5, b"")] if self.kind == "rsa" else []))
def ec(path, curve="prime256v1", *more): return Key(path, "ec", "ecparam", "-name", curve, "-genkey", "-noout", *more)
def rsa(path, n): return Key(path, "rsa", "genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:%d" % n)
def ed25519(path): return Key(path, "ed25519", "genpkey", "-algorithm", "ED25519")

DAY = 86400
serials = iter(range(1000, 1 << 30))
class Cert:
    """issuer None: signed by itself. damage: what is wrong with the signature."""
    def __init__(self, subject, key, issuer=None, exts=(), before=-DAY, after=30 * DAY, version=2, md="sha256", damage=None, serial=None):
        self.subject, self.key, self.serial = subject, key, next(serials) if serial is None else serial
        by = issuer or self
        alg = by.key.algorithm(md)
        outer = seq(oid("1.2.840.10045.4.3.3")) if damage == "algorithm" else alg
        x = [tlv(0xa3, seq(*[seq(oid(o), *([tlv(1, b"\xff")] if c else []), octets(v)) for o, c, v in exts]))] if exts else []
        now = time.time()
        tbs = seq(*([tlv(0xa0, num(version))] if version else []), num(self.serial), alg, by.subject, seq(when(now + before), when(now + after)), subject, key.spki, *x)
        s = by.key.sign(tbs, md)
        if damage == "signature": s = s[:-1] + bytes([s[-1] ^ 1])
        self.der = seq(tbs, outer, bits(s))
    def pem(self):
        b = base64.b64encode(self.der).decode()
        return "-----BEGIN CERTIFICATE-----\n" + "\n".join(b[i:i + 64] for i in range(0, len(b), 64)) + "\n-----END CERTIFICATE-----\n"

def crl(issuer, revoked=(), before=-3600, after=DAY, key=None):
    """A list of revoked certificates (RFC 5280 5.1), DER. key: whose signature it carries, when not its issuer's."""
    key, now = key or issuer.key, time.time()
    alg = key.algorithm("sha256")
    gone = [seq(*[seq(num(c.serial), when(now - DAY)) for c in revoked])] if revoked else []
    tbs = seq(num(1), alg, issuer.subject, when(now + before), when(now + after), *gone)
    return seq(tbs, alg, bits(key.sign(tbs, "sha256")))
def crl_pem(*lists):
    lines = lambda b: "\n".join(b[i:i + 64] for i in range(0, len(b), 64))
    return "".join("-----BEGIN X509 CRL-----\n%s\n-----END X509 CRL-----\n" % lines(base64.b64encode(x).decode()) for x in lists)
