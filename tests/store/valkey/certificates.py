"""A certificate of this machine and its issuer, made by openssl."""

from __future__ import annotations

import shutil
import ssl
import subprocess
from pathlib import Path

OPENSSL = shutil.which("openssl")
_KEY = ("-newkey", "rsa:2048", "-nodes")


def issuer(folder: Path, name: str) -> Path:
    """The file of its certificate; the key lies beside it."""
    made = folder / f"{name}.pem"
    _openssl(
        "req", "-x509", *_KEY, "-days", "2", "-subj", f"/CN={name}", "-out", made,
        "-keyout", made.with_suffix(".key"), "-addext", "keyUsage=critical,keyCertSign",
    )  # fmt: skip
    return made


def server_side(folder: Path, by: Path) -> ssl.SSLContext:
    """What a server on loopback shows, signed by the issuer."""
    key, request, made = (folder / f"server.{end}" for end in ("key", "csr", "pem"))
    names = folder / "names"
    names.write_text("subjectAltName=IP:127.0.0.1,DNS:localhost\n")
    _openssl("req", *_KEY, "-subj", "/CN=localhost", "-keyout", key, "-out", request)
    _openssl(
        "x509", "-req", "-in", request, "-CA", by, "-CAkey", by.with_suffix(".key"),
        "-CAcreateserial", "-days", "2", "-extfile", names, "-out", made,
    )  # fmt: skip
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(made, key)
    return context


def _openssl(*arguments: str | Path) -> None:
    assert OPENSSL is not None
    subprocess.run([OPENSSL, *map(str, arguments)], check=True, capture_output=True)
