"""The witness's token: one line that holds all that a pair needs to know of its witness, for pasting.

"lsw1." + base64url of JSON, without padding + "." + the first 16 hex digits of the SHA-256 of all that stands before this last dot.
lockstep(1) reads it (ui-api/cli/witness_token.cpp). The checksum finds what was lost in pasting; it proves nothing else.
"""
import base64
import hashlib
import json

PREFIX = "lsw1."
CHECKSUM_DIGITS = 16


def token_of(pair, pair_id, endpoints, ca, user, password):
    fields = {"ca": ca, "endpoints": endpoints, "id": pair_id, "pair": pair, "password": password, "user": user}
    text = json.dumps(fields, sort_keys=True, separators=(",", ":"))
    body = PREFIX + base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")
    return f"{body}.{hashlib.sha256(body.encode()).hexdigest()[:CHECKSUM_DIGITS]}"
