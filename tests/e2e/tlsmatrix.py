# SPDX-License-Identifier: Apache-2.0
"""Origins with every kind of certificate. tlsmatrix.py make DIR STATE: the matrix, its trust anchors and its table; serve DIR TLS RAW: the origins."""
import json, os, re, socket, ssl, struct, sys, threading
from pki import *

def make(d, state):
    k = lambda n: os.path.join(d, n)
    ck, ik, lk = ec(k("root.key")), ec(k("inter.key")), ec(k("leaf.key"))
    rk, ok = rsa(k("rsa.key"), 2048), ec(k("other.key"))
    CA, SIGN = (basic(True), usage("certsign", "crlsign")), usage("sign")
    root = Cert(name("matrix root"), ck, exts=CA, after=3650 * DAY)
    rsaroot = Cert(name("matrix rsa root"), rk, exts=CA)
    oldroot = Cert(name("expired root"), ec(k("oldroot.key")), exts=CA, before=-20 * DAY, after=-10 * DAY)
    nobc = Cert(name("root without constraints"), ec(k("nobc.key")), exts=(usage("certsign", "crlsign"),))
    stranger = Cert(name("unknown root"), ok, exts=CA)
    nc = Cert(name("constrained root"), ec(k("ncroot.key")), exts=CA)
    cases, chains = [], {}
    def inter(cn, exts=None, issuer=root, key=ik, **kw): return Cert(name(cn), key, issuer, exts if exts is not None else (basic(True, 0), usage("certsign", "crlsign")), **kw)
    good = inter("matrix intermediate")
    def leaf(label, issuer=good, exts=None, subject=None, key=lk, names=None, more=(), **kw):
        n = names if names is not None else (dns(label + ".m.test"),)
        e = exts if exts is not None else (basic(False), SIGN, eku("server"), *((san(*n),) if n else ()), *more)
        return Cert(subject if subject is not None else name(label + ".m.test"), key, issuer, e, **kw)
    def case(label, want, says, chain=None, key=lk, host=None, sni=None, **server):
        """want: ok or no; says: what the reason must hold"""
        cases.append(dict(label=label, host=host or label + ".m.test", want=want, says=says, server=server))
        c = chain or [leaf(label, key=key), good]
        key = c[0].key
        with open(k(label + ".pem"), "w") as f: f.write(open(key.path).read() + "".join(x.pem() for x in c))
        chains[label] = c
    # validity
    case("plain", "ok", "")
    case("expired", "no", "expired", [leaf("expired", before=-9 * DAY, after=-DAY), good])
    case("not-yet", "no", "not yet valid", [leaf("not-yet", before=DAY), good])
    case("inter-expired", "no", "expired", [leaf("inter-expired", i := inter("expired intermediate", before=-9 * DAY, after=-DAY)), i])
    case("root-expired", "no", "expired", [leaf("root-expired", oldroot)])
    case("outlives", "ok", "", [leaf("outlives", i := inter("short intermediate", after=2 * DAY), after=300 * DAY), i])
    case("skew-early", "ok", "", [leaf("skew-early", before=200), good])
    case("skew-late", "ok", "", [leaf("skew-late", after=-200), good])
    case("skew-far", "no", "expired", [leaf("skew-far", after=-400), good])
    case("year2060", "ok", "", [leaf("year2060", i := inter("long intermediate", after=14000 * DAY), after=13000 * DAY), i])
    # name
    case("wrong-host", "no", "another name", [leaf("wrong-host", names=(dns("other.m.test"),)), good])
    case("cn-only", "no", "another name", [leaf("cn-only", names=()), good])
    case("cn-upper", "ok", "", [leaf("cn-upper", names=(dns("CN-Upper.M.Test"),)), good])
    case("no-subject", "ok", "", [leaf("no-subject", subject=seq(), exts=(basic(False), SIGN, eku("server"), san(dns("no-subject.m.test"), critical=True))), good])
    case("wild-one", "ok", "", [leaf("wild-one", names=(dns("*.m.test"),)), good])
    case("xn--wld-joa", "ok", "", [leaf("xn--wld-joa", names=(dns("*.m.test"),)), good])
    case("wild-two", "no", "another name", [leaf("wild-two", names=(dns("*.*.test"),)), good])
    case("wild-alone", "no", "another name", [leaf("wild-alone", names=(dns("*"),)), good])
    case("fwild", "no", "another name", [leaf("fwild", names=(dns("f*.m.test"),)), good])
    case("wild-end", "no", "another name", [leaf("wild-end", names=(dns("*-end.m.test"),)), good])
    case("wild-mid", "no", "another name", [leaf("wild-mid", names=(dns("wild-mid.*.test"),)), good])
    case("wild-tld", "no", "another name", [leaf("wild-tld", names=(dns("*.test"),)), good], host="wildtld.test")
    case("trailing-dot", "no", "another name", [leaf("trailing-dot", names=(dns("trailing-dot.m.test."),)), good])
    case("nul-san", "no", "another name", [leaf("nul-san", names=(dns(b"nul-san.m.test\0.evil.test"),)), good])
    case("nul-cn", "no", "another name", [leaf("nul-cn", names=(), subject=name(b"nul-cn.m.test\0.evil.test")), good])
    case("uri-san", "no", "another name", [leaf("uri-san", names=(tlv(0x86, b"https://uri-san.m.test/"),)), good])
    case("suffix", "no", "another name", [leaf("suffix", names=(dns("suffix.m.test.evil.test"), dns("m.test"), dns(".m.test"))), good])
    case("sans1000", "ok", "", [leaf("sans1000", names=tuple(dns("n%d.m.test" % i) for i in range(1000)) + (dns("sans1000.m.test"),)), good])
    case("sans10000", "no", "excessive message", [leaf("sans10000", names=tuple(dns("n%d.m.test" % i) for i in range(10000)) + (dns("sans10000.m.test"),)), good])
    case("ip-ok", "ok", "", [leaf("ip-ok", names=(ipname([127, 0, 0, 5]),)), good], host="127.0.0.5")
    case("ip-other", "no", "another address", [leaf("ip-other", names=(ipname([127, 0, 0, 5]),)), good], host="127.0.0.6")
    case("ip-as-dns", "no", "another address", [leaf("ip-as-dns", names=(dns("127.0.0.7"),)), good], host="127.0.0.7")
    # trust
    case("self-signed", "no", "self", [Cert(name("self-signed.m.test"), lk, exts=(basic(False), SIGN, eku("server"), san(dns("self-signed.m.test"))))])
    case("untrusted-root", "no", "self", [leaf("untrusted-root", stranger), stranger])
    case("unknown-issuer", "no", "issuer", [leaf("unknown-issuer", stranger)])
    case("incomplete", "no", "issuer", [leaf("incomplete")])
    case("same-name-root", "no", "", [leaf("same-name-root", Cert(name("matrix root"), ok, exts=CA))])
    case("disorder", "ok", "", [leaf("disorder", i2 := Cert(name("lower"), ok, i1 := Cert(name("upper"), ik, root, (basic(True, 1), usage("certsign"))), (basic(True, 0), usage("certsign")))), root, i1, i2])
    case("unrelated", "ok", "", [leaf("unrelated"), stranger, good, oldroot])
    case("cross", "ok", "", [leaf("cross"), good, Cert(name("matrix root"), ck, stranger, CA)])
    # roots that came with software of old (their names; nobody has their keys here): like any other that is not listed
    for label, cn in (("superfish", "Superfish, Inc."), ("edellroot", "eDellRoot"), ("dsdtestprovider", "DSDTestProvider"), ("mitm-software", "mitmproxy"), ("preact-cli", "localhost"), ("webpack-dev-server", "webpack")):
        case(label, "no", "self", [leaf(label, i := Cert(name(cn), ok, exts=CA)), i])
    case("root-leaf", "ok", "", [leaf("root-leaf", root)])
    # constraints
    case("leaf-issuer", "no", "", [leaf("leaf-issuer", i := leaf("issuer", key=ik)), i, good])
    case("pathlen", "no", "path length", [leaf("pathlen", i2 := Cert(name("too deep"), ok, good, (basic(True), usage("certsign")))), i2, good])
    def constrained(label, permitted=(), excluded=()):
        i = inter("nc " + label, (basic(True, 0), usage("certsign"), constraints(permitted, excluded)))
        return i
    for label, want, p, x in (("nc-permits", "ok", (dns("m.test"),), ()), ("nc-other", "no", (dns("other.test"),), ()), ("nc-excludes", "no", (), (dns("m.test"),)), ("nc-ip-free", "ok", (ipname([10, 0, 0, 0, 255, 0, 0, 0]),), ())):
        i = constrained(label, p, x)
        case(label, want, "" if want == "ok" else "subtree", [leaf(label, i), i])
    i = constrained("nc-ip", (ipname([10, 0, 0, 0, 255, 0, 0, 0]),))
    case("nc-ip", "no", "subtree", [leaf("nc-ip", i, names=(ipname([127, 0, 0, 8]),)), i], host="127.0.0.8")
    case("no-certsign", "no", "", [leaf("no-certsign", i := inter("no certsign", (basic(True, 0), usage("crlsign")))), i])
    case("no-basic", "no", "CA", [leaf("no-basic", i := inter("no basic", (usage("certsign"),))), i])
    case("root-no-basic", "no", "CA", [leaf("root-no-basic", nobc)])
    case("not-ca", "no", "CA", [leaf("not-ca", i := inter("not a CA", (basic(False), usage("certsign")))), i])
    case("v1-inter", "no", "", [leaf("v1-inter", i := inter("v1", (), version=0)), i])
    case("v1-leaf", "no", "another name", [leaf("v1-leaf", exts=(), version=0), good])
    case("eku-client", "no", "purpose", [leaf("eku-client", exts=(basic(False), SIGN, eku("client"), san(dns("eku-client.m.test")))), good])
    case("eku-code", "no", "purpose", [leaf("eku-code", exts=(basic(False), SIGN, eku("code"), san(dns("eku-code.m.test")))), good])
    case("eku-both", "ok", "", [leaf("eku-both", exts=(basic(False), SIGN, eku("server", "client"), san(dns("eku-both.m.test")))), good])
    case("eku-none", "no", "extendedKeyUsage", [leaf("eku-none", exts=(basic(False), SIGN, san(dns("eku-none.m.test")))), good])
    case("eku-inter-code", "no", "purpose", [leaf("eku-inter-code", i := inter("code signing", (basic(True, 0), usage("certsign"), eku("code")))), i])
    case("sct-none", "ok", "")
    case("sct-garbage", "ok", "", [leaf("sct-garbage", more=(("1.3.6.1.4.1.11129.2.4.2", False, octets(b"\0\x10garbage")),)), good])
    case("eku-inter-none", "ok", "", [leaf("eku-inter-none", i := inter("no purpose", (basic(True, 0), usage("certsign")))), i])
    case("eku-inter-client", "no", "purpose", [leaf("eku-inter-client", i := inter("client only", (basic(True, 0), usage("certsign"), eku("client")))), i])
    case("critical", "no", "critical", [leaf("critical", more=(UNKNOWN_CRITICAL,)), good])
    case("critical-inter", "no", "critical", [leaf("critical-inter", i := inter("critical", (basic(True, 0), usage("certsign"), UNKNOWN_CRITICAL))), i])
    # crypto
    case("sha1-leaf", "no", "weak", [leaf("sha1-leaf", md="sha1"), good])
    case("sha1-inter", "no", "weak", [leaf("sha1-inter", i := inter("sha1", md="sha1")), i])
    case("md5-leaf", "no", "weak", [leaf("md5-leaf", rsaroot, md="md5")])
    case("rsa1024", "no", "too weak", [leaf("rsa1024", key=rsa(k("rsa1024.key"), 1024)), good])
    case("rsa512", "no", "too weak", [leaf("rsa512", key=rsa(k("rsa512.key"), 512)), good], max="1.2")
    case("rsa1024-inter", "no", "too weak", [leaf("rsa1024-inter", i := inter("weak", key=rsa(k("rsa1024.key"), 1024))), i])
    case("rsa2048", "ok", "", [leaf("rsa2048", key=rk), good])
    case("rsa4096", "ok", "", [leaf("rsa4096", key=rsa(k("rsa4096.key"), 4096)), good])
    case("rsa8192", "ok", "", [leaf("rsa8192", key=Key(k("rsa8192.key"), "rsa", "genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:8192", "-pkeyopt", "rsa_keygen_primes:4")), good])
    case("ecc384", "ok", "", [leaf("ecc384", key=ec(k("ecc384.key"), "secp384r1")), good])
    case("ed25519", "ok", "", [leaf("ed25519", key=ed25519(k("ed.key"))), good])
    case("pss", "ok", "", [leaf("pss", rsaroot, md="pss")])
    case("explicit-curve", "no", "", [leaf("explicit-curve", key=ec(k("explicit.key"), "prime256v1", "-param_enc", "explicit")), good])
    case("explicit-inter", "no", "explicit", [leaf("explicit-inter", i := inter("explicit", key=ec(k("explicit.key"), "prime256v1", "-param_enc", "explicit"))), i])
    case("bad-signature", "no", "signature", [leaf("bad-signature", damage="signature"), good])
    case("bad-algorithm", "no", "signature", [leaf("bad-algorithm", damage="algorithm"), good])
    case("deep", "no", "", None)
    chain, up = [], root
    for n in range(20):
        up = Cert(name("deep %d" % n), ik if n % 2 else ok, up, (basic(True), usage("certsign")))
        chain.insert(0, up)
    cases.pop(); case("deep", "no", "chain", [leaf("deep", up)] + chain)
    # protocol, cipher
    rsachain = lambda label: [leaf(label, key=rk), good]
    case("tls10", "no", "protocol version", rsachain("tls10"), min="1.0", max="1.0", ciphers="DEFAULT:@SECLEVEL=0")
    case("tls11", "no", "protocol version", rsachain("tls11"), min="1.0", max="1.1", ciphers="DEFAULT:@SECLEVEL=0")
    case("tls12", "ok", "", max="1.2")
    case("tls13", "ok", "", min="1.3")
    for label, c in (("static-rsa", "AES128-GCM-SHA256"), ("cbc", "ECDHE-RSA-AES128-SHA"), ("dhe", "DHE-RSA-AES128-GCM-SHA256"), ("anon", "ADH-AES128-GCM-SHA256:@SECLEVEL=0"), ("null", "ECDHE-RSA-NULL-SHA:@SECLEVEL=0"), ("ccm", "ECDHE-ECDSA-AES128-CCM")):
        case(label, "no", "handshake failure", rsachain(label) if label != "ccm" else None, max="1.2", ciphers=c)
    case("chacha", "ok", "", max="1.2", ciphers="ECDHE-ECDSA-CHACHA20-POLY1305")
    case("client-optional", "ok", "", client="optional")
    case("client-required", "no", "client certificate", client="required", max="1.2")
    case("client-required13", "no", "client certificate", client="required")
    case("resume12", "ok", "", max="1.2")
    case("resume13", "ok", "")
    case("reneg", "any", "", [leaf("reneg", key=rk), good])
    # an origin whose octets are changed on the way (rawly, below): the signature in its handshake
    case("keysig", "no", "signature", [leaf("keysig", names=(dns("keysig.raw.test"),)), good], host="keysig.raw.test", max="1.2")
    # by the policy
    case("min13", "no", "protocol version", [leaf("min13", names=(dns("min13.test"),)), good], host="min13.test", max="1.2")
    case("pin-ok", "ok", "", [leaf("pin-ok", names=(dns("pin-ok.test"),)), good], host="pin-ok.test")
    case("pin-inter", "ok", "", [leaf("pin-inter", names=(dns("pin-inter.test"),)), good], host="pin-inter.test")
    case("pin-bad", "no", "pins", [leaf("pin-bad", names=(dns("pin-bad.test"),)), good], host="pin-bad.test")
    case("inter-listed", "ok", "", [leaf("inter-listed", names=(dns("inter-listed.test"),))], host="inter-listed.test")
    case("leaf-listed", "ok", "", [x := leaf("leaf-listed", stranger, names=(dns("leaf-listed.test"),))], host="leaf-listed.test")
    open(k("listed.pem"), "w").write(x.pem())
    case("alpn-h2", "no", "alpn", [leaf("alpn-h2", names=(dns("alpn-h2.test"),)), good], host="alpn-h2.test", alpn=["http/1.1"])
    case("staple-wanted", "no", "must-staple", [leaf("staple-wanted", more=(MUST_STAPLE,)), good])
    case("ocsp-must", "ok", "", [leaf("ocsp-must", more=(MUST_STAPLE,)), good], staple="must")
    for label in "good revoked unknown other late stranger self delegated garbage".split():
        case("ocsp-" + label, "ok" if label in ("good", "delegated") else "no", {"good": "", "delegated": "", "self": "not signed", "revoked": "revoked", "unknown": "does not know", "other": "another certificate", "late": "out of its time", "stranger": "not signed", "garbage": "cannot be read"}[label], staple=label)
    case("public-eku-none", "no", "extendedKeyUsage", [leaf("public-eku-none", names=(dns("public-eku-none.test"),), exts=(basic(False), SIGN, san(dns("public-eku-none.test")))), good], host="public-eku-none.test")
    case("public-plain", "ok", "", [leaf("public-plain", names=(dns("public-plain.test"),)), good], host="public-plain.test")
    case("public-not-there", "no", "issuer", [leaf("public-not-there", nc, names=(dns("public-not-there.test"),))], host="public-not-there.test")
    # lists of revoked certificates (tls.crl)
    def listed(label, want, says, lists, chain=None, der=False):
        c = chain or [leaf(label), good]
        case(label, want, says, c)
        l = lists(c[0])
        if der: open(k(label + ".crl"), "wb").write(l[0])
        else: open(k(label + ".crl"), "w").write(crl_pem(*l))
    none, gone, i = crl(root), inter("revoked intermediate"), inter("intermediate that signs no lists", (basic(True, 0), usage("certsign")))
    listed("crl-good", "ok", "", lambda c: (none, crl(good, [good])))
    open(k("renewed.crl"), "w").write(crl_pem(none, crl(good, [chains["crl-good"][0]])))
    listed("crl-public", "ok", "", lambda c: (crl(good), none))
    listed("crl-anchor", "ok", "", lambda c: (crl(good),), der=True)
    listed("crl-revoked", "no", "revoked, says the policy's list", lambda c: (none, crl(good, [good, c])))
    listed("crl-anchor-revoked", "no", "revoked, says the policy's list", lambda c: (crl(good, [c]),), der=True)
    listed("crl-public-revoked", "no", "revoked, says the policy's list", lambda c: (crl(good, [c]), none))
    listed("crl-inter", "no", "revoked, says the policy's list", lambda c: (crl(root, [gone]), crl(gone)), [leaf("crl-inter", gone), gone])
    listed("crl-none", "no", "none of the policy's lists", lambda c: (none,))
    listed("crl-no-root", "no", "none of the policy's lists", lambda c: (crl(good),))
    listed("crl-stranger", "no", "none of the policy's lists", lambda c: (none, crl(stranger)))
    listed("crl-late", "no", "out of date", lambda c: (none, crl(good, before=-3 * DAY, after=-DAY)))
    listed("crl-early", "no", "not yet valid", lambda c: (none, crl(good, before=DAY, after=2 * DAY)))
    listed("crl-forged", "no", "not signed", lambda c: (none, crl(good, key=ok)))
    listed("crl-unfit", "no", "not signed", lambda c: (none, crl(i)), [leaf("crl-unfit", i), i])
    # L10: the interception CA itself as a witness, also where the policy names it
    own = open(os.path.join(state, "ca/ca.pem")).read()
    subject = run("openssl", "x509", "-in", os.path.join(state, "ca/ca.pem"), "-outform", "DER")
    class Own: pass
    o = Own(); o.key = Key(os.path.join(state, "ca/ca.key"), "ec"); o.subject = name_of(subject)
    for host in ("ownca.test", "public-ownca.test"):
        case(host[:-5], "no", "interception CA" if host[0] == "o" else "", [leaf("x", o, names=(dns(host),))], host=host)
    open(k("roots.pem"), "w").write("".join(x.pem() for x in (root, rsaroot, oldroot, nobc)))
    open(k("public.pem"), "w").write(root.pem() + own)
    open(k("own.pem"), "w").write(own)
    open(k("inter.pem"), "w").write(good.pem())
    staples(d, good, stranger, chains)
    json.dump(dict(cases=cases, pin_leaf=lk.pin(), pin_inter=ik.pin(), pin_other=ok.pin()), open(k("matrix.json"), "w"))

def name_of(der): # the subject of a certificate: the sixth of its parts, as x509v3 has a version
    def parts(b):
        out = []
        while b:
            n, at = b[1], 2
            if n & 128: at = 2 + (n & 127); n = int.from_bytes(b[2:at], "big")
            out.append(b[:at + n]); b = b[at + n:]
        return out
    inside = lambda b: b[2 + (b[1] & 127 if b[1] & 128 else 0):]
    return parts(inside(parts(inside(der))[0]))[5]

def staples(d, issuer, stranger, chains):
    """OCSP responses (RFC 6960 4.2.1), signed by the issuer itself, or by a stranger"""
    import hashlib
    gen = lambda t: tlv(0x18, time.strftime("%Y%m%d%H%M%SZ", time.gmtime(time.time() + t)).encode())
    key_bits = issuer.key.spki[-65:]
    delegate = Cert(name("ocsp responder"), stranger.key, issuer, (basic(False), usage("sign"), eku("ocsp")))
    for label in "good revoked unknown other late stranger self delegated must".split():
        c = chains["ocsp-" + ("good" if label == "other" else label)][0] # other: of another certificate
        cert_id = seq(seq(oid("1.3.14.3.2.26"), tlv(5, b"")), octets(hashlib.sha1(issuer.subject).digest()), octets(hashlib.sha1(key_bits).digest()), num(c.serial))
        status = {"revoked": tlv(0xa1, gen(-DAY)), "unknown": tlv(0x82, b"")}.get(label, tlv(0x80, b""))
        start, end = (-9 * DAY, -2 * DAY) if label == "late" else (-3600, 6 * DAY)
        by = {"stranger": stranger, "self": c, "delegated": delegate}.get(label, issuer)
        tbs = seq(tlv(0xa1, by.subject), gen(start), seq(seq(cert_id, status, gen(start), tlv(0xa0, gen(end)))))
        more = tlv(0xa0, seq(by.der)) if by is not issuer else b""
        basic_response = seq(tbs, by.key.algorithm("sha256"), bits(by.key.sign(tbs, "sha256")), more)
        with open(os.path.join(d, "ocsp-%s.der" % label), "wb") as f:
            f.write(seq(tlv(10, b"\0"), tlv(0xa0, seq(oid("1.3.6.1.5.5.7.48.1.1"), octets(basic_response)))))
    open(os.path.join(d, "ocsp-garbage.der"), "wb").write(seq(tlv(10, b"\0"), tlv(0xa0, seq(oid("1.3.6.1.5.5.7.48.1.1"), octets(b"garbage")))))

V = {"1.0": ssl.TLSVersion.TLSv1, "1.1": ssl.TLSVersion.TLSv1_1, "1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}
def context(d, c):
    s = c["server"]
    x = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    x.set_ciphers(s.get("ciphers", "DEFAULT:@SECLEVEL=0"))
    x.minimum_version, x.maximum_version = V[s.get("min", "1.2")], V[s.get("max", "1.3")]
    x.load_cert_chain(os.path.join(d, c["label"] + ".pem"))
    if "alpn" in s: x.set_alpn_protocols(s["alpn"])
    if "client" in s:
        x.verify_mode = ssl.CERT_OPTIONAL if s["client"] == "optional" else ssl.CERT_REQUIRED
        x.load_verify_locations(os.path.join(d, "roots.pem"))
    return x

def serve(d, tls_port, raw_port):
    m = json.load(open(os.path.join(d, "matrix.json")))
    by = {c["host"]: context(d, c) for c in m["cases"] if "staple" not in c["server"]}
    log, lock = open(os.path.join(d, "seen"), "w", 1), threading.Lock()
    def tell(*a):
        with lock: print(*a, file=log)
    def host_of(raw):
        b = b""
        for _ in range(200):
            b = raw.recv(16384, socket.MSG_PEEK)
            f = re.search(rb"([a-z0-9-]+(?:\.[a-z0-9-]+)*\.test)", b)
            if f: return f.group(1).decode()
            if len(b) > 5 and len(b) >= 5 + struct.unpack(">H", b[3:5])[0]: return raw.getsockname()[0]
        return "-"
    def one(raw):
        raw.settimeout(20)
        try:
            host = host_of(raw)
            s = by[host].wrap_socket(raw, server_side=True)
            b = b""
            while b"\r\n\r\n" not in b:
                x = s.recv(4096)
                if not x: return
                b += x
            tell("request", host, "reused=%d" % s.session_reused, "alpn=%s" % s.selected_alpn_protocol())
            body = b"reused=%d\n" % s.session_reused
            s.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            s.unwrap()
        except (OSError, KeyError) as e: tell("failed", repr(e))
        finally: raw.close()
    def corrupt(raw, hello, port):
        o = socket.create_connection(("127.0.0.1", port), 10); o.settimeout(5); o.sendall(hello); b = b""
        while True: # TLS 1.2: the server's first flight is in clear; its ServerKeyExchange ends with the signature
            x = o.recv(65536)
            if not x: break
            b += x; at = 0
            while len(b) >= at + 5 and len(b) >= at + 5 + struct.unpack(">H", b[at + 3:at + 5])[0]:
                n = struct.unpack(">H", b[at + 3:at + 5])[0]
                if b[at + 5] == 12: b = b[:at + 4 + n] + bytes([b[at + 4 + n] ^ 1]) + b[at + 5 + n:]
                raw.sendall(b[at:at + 5 + n]); done = b[at + 5] == 14; at += 5 + n
                if done: raw.recv(65536); return
            b = b[at:]
    def rawly(raw):
        raw.settimeout(5)
        try:
            what = host_of(raw).split(".")[0]
            hello = raw.recv(16384)
            if what == "keysig": corrupt(raw, hello, tls_port); return
            if what.startswith("suite-"): # what nobody offered: export, RC4, 3DES, no encryption, static and ephemeral Diffie-Hellman (FREAK, Logjam)
                body = b"\x03\x03" + bytes(range(32)) + b"\0" + bytes.fromhex(what[6:]) + b"\0\0\5\xff\1\0\1\0"
                raw.sendall(b"\x16\x03\x03" + struct.pack(">H", len(body) + 4) + b"\2" + len(body).to_bytes(3, "big") + body)
            if what == "ssl2": raw.sendall(b"\x80\x0b\x04\x00\x01\x00\x02\x00\x00\x00\x00\x00\x10")
            if what == "http": raw.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
            if what == "ssh": raw.sendall(b"SSH-2.0-OpenSSH_9.2\r\n")
            if what == "garbage": raw.sendall(b"\x16\x03\x03\x00\x40" + bytes(range(64)))
            if what == "truncated": raw.sendall(b"\x16\x03\x03\x40\x00\x02\x00")
            if what == "alerts": raw.sendall(b"\x15\x03\x03\x00\x02\x01\x00" * 5000)
            if what == "sslv3": raw.sendall(b"\x16\x03\x00\x00\x2a\x02\x00\x00\x26\x03\x00" + bytes(32) + b"\x00\x00\x05\x00")
            if what == "heartbeat": raw.sendall(b"\x18\x03\x03\x00\x03\x01\x40\x00")
            if what == "huge": raw.sendall(b"\x16\x03\x03\xff\xff" + bytes(70000))
            if what in ("downgrade", "alpn", "legacy"):
                # a ServerHello of TLS 1.2 with the mark that says 1.3 was possible (RFC 8446 4.1.3); one that picks a protocol nobody offered; one without RFC 5746
                rnd = bytes(24) + (b"DOWNGRD\x01" if what == "downgrade" else bytes(8))
                ext = b"" if what == "legacy" else b"\xff\x01\x00\x01\x00\x00\x17\x00\x00" + (b"\x00\x10\x00\x05\x00\x03\x02h9" if what == "alpn" else b"")
                body = b"\x03\x03" + rnd + b"\x00" + b"\xc0\x2b" + b"\x00" + struct.pack(">H", len(ext)) + ext
                msg = b"\x02" + len(body).to_bytes(3, "big") + body
                raw.sendall(b"\x16\x03\x03" + struct.pack(">H", len(msg)) + msg)
            if what != "silent": raw.shutdown(socket.SHUT_WR)
            raw.recv(65536)
        except OSError: pass
        finally: raw.close()
    def listen(port, fn):
        l = socket.socket(); l.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1); l.bind(("0.0.0.0", port)); l.listen(200)
        def loop():
            while True:
                c, _ = l.accept()
                threading.Thread(target=fn, args=(c,), daemon=True).start()
        threading.Thread(target=loop, daemon=True).start()
    listen(tls_port, one); listen(raw_port, rawly)
    tell("up")
    threading.Event().wait()

def renegotiate(d, port):
    """An origin of TLS 1.2 that asks for another handshake when it has read the request, and answers then."""
    import subprocess, time
    p = subprocess.Popen(["openssl", "s_server", "-accept", "127.0.0.1:%d" % port, "-cert", d + "/reneg.pem", "-key", d + "/reneg.pem", "-cert_chain", d + "/inter.pem", "-tls1_2", "-naccept", "2"],
                         stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, bufsize=0)
    seen = b""
    while x := p.stdout.read(4096):
        seen += x
        open(d + "/reneg.log", "ab").write(x)
        if b"GET / " in seen and b"\r\n\r\n" in seen[seen.index(b"GET / "):]:
            p.stdin.write(b"r\n"); time.sleep(0.5)
            try: p.stdin.write(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: close\r\n\r\nok\n"); time.sleep(0.5); p.stdin.write(b"Q\n")
            except OSError: pass
            seen = b""

if sys.argv[1] == "reneg": renegotiate(sys.argv[2], int(sys.argv[3]))
elif sys.argv[1] == "make": make(sys.argv[2], sys.argv[3])
else: serve(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
