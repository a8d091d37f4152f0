"""Certificates and their keys, made by openssl."""
import pathlib
import secrets
import ssl
import subprocess
import tempfile

from lockstep_witness.files import Refused, is_ip

CA_DAYS, CERTIFICATE_DAYS = 7300, 3650


def openssl(*arguments):
    try:
        done = subprocess.run(["openssl", *map(str, arguments)], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              check=False)
    except FileNotFoundError:
        raise Refused("There is no openssl here. Install the package of that name.") from None
    if done.returncode != 0:
        raise Refused(f"openssl {arguments[0]} failed: {done.stderr.strip()}")


def make_certificate(days, extensions, name, signer=None):
    """Of `name`, as in openssl's -subj: (certificate, key) in PEM; without a signer, (certificate, key) too, it signs itself."""
    with tempfile.TemporaryDirectory(prefix="lockstep-witness-") as made:
        at = pathlib.Path(made)
        (at / "settings").write_text("[req]\ndistinguished_name = name\nx509_extensions = it\n[name]\n[it]\n"
                                     f"subjectKeyIdentifier = hash\n{extensions}")
        openssl("genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", at / "key")
        if signer:
            for file, text in zip(("ca", "ca.key"), signer):
                (at / file).touch(mode=0o600)
                (at / file).write_text(text)
            openssl("req", "-new", "-config", at / "settings", "-subj", name, "-key", at / "key", "-out", at / "request")
            openssl("x509", "-req", "-in", at / "request", "-CA", at / "ca", "-CAkey", at / "ca.key", "-set_serial",
                    f"0x{secrets.token_hex(15)}", "-days", days, "-sha256", "-extfile", at / "settings", "-extensions",
                    "it", "-out", at / "certificate")
        else:
            openssl("req", "-x509", "-new", "-config", at / "settings", "-subj", name, "-key", at / "key", "-days",
                    days, "-sha256", "-out", at / "certificate")
        return (at / "certificate").read_text(), (at / "key").read_text()


def make_ca():
    return make_certificate(CA_DAYS, "basicConstraints = critical,CA:TRUE\nkeyUsage = critical,keyCertSign,cRLSign\n",
                            f"/CN=Lockstep witness {secrets.token_hex(4)}")


def make_server_certificate(addresses, ca, ca_key):
    names = [f"{'IP' if is_ip(a) else 'DNS'}:{a}" for a in dict.fromkeys([*addresses, "127.0.0.1"])]
    return make_certificate(CERTIFICATE_DAYS, "basicConstraints = critical,CA:FALSE\nkeyUsage = critical,digitalSignature\n"
                            "authorityKeyIdentifier = keyid\nextendedKeyUsage = serverAuth,clientAuth\n"
                            f"subjectAltName = {','.join(names)}\n",
                            "/CN=Lockstep witness", (ca, ca_key))


def make_peer_certificate():
    """etcd asks for it on the port for other members: nobody else has it, so nobody else is one. It has no common name,
    which etcd's HTTP gateway would refuse."""
    return make_certificate(CA_DAYS, "basicConstraints = critical,CA:FALSE\nextendedKeyUsage = serverAuth,clientAuth\n"
                            "subjectAltName = critical,IP:127.0.0.1\n", "/")


def complaint_about(certificate, key, ca, address):
    """Why a node that trusts `ca` would not take it for `address`: both ends of a TLS handshake, in memory."""
    try:
        client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        client.load_verify_locations(cafile=str(ca))
        server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        server.load_cert_chain(str(certificate), str(key), password=lambda: "")
    except (OSError, ssl.SSLError, ValueError) as e:
        return f"{e}: is the key that of the certificate, without a passphrase, and are all three PEM files?"
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [client.wrap_bio(to_client, to_server, server_hostname=address),
            server.wrap_bio(to_server, to_client, server_side=True)]
    waiting = list(ends)
    for _ in range(10):
        for end in list(waiting):
            try:
                end.do_handshake()
                waiting.remove(end)
            except ssl.SSLWantReadError:
                pass
            except ssl.SSLCertVerificationError as e:
                return e.verify_message
            except ssl.SSLError as e:
                return str(e)
    return "the handshake does not end" if waiting else None
