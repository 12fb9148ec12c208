"""bcrypt by way of libcrypt, for a mgr whose sub-interpreters cannot load the real one.

Ceph 18's mgr_util imports bcrypt at module level; Debian's python3-bcrypt is a PyO3 module
and raises ImportError in every sub-interpreter but the first, which takes down most mgr
modules.  This has the three functions that Ceph calls, with the same results.
"""

import base64
import ctypes
import hmac
import os

_crypt = ctypes.CDLL("libcrypt.so.1").crypt
_crypt.restype = ctypes.c_char_p
_crypt.argtypes = [ctypes.c_char_p, ctypes.c_char_p]

_STANDARD = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_BCRYPT = b"./ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"


def gensalt(rounds: int = 12, prefix: bytes = b"2b") -> bytes:
    encoded = base64.b64encode(os.urandom(16)).rstrip(b"=")
    salt = encoded.translate(bytes.maketrans(_STANDARD, _BCRYPT))
    return b"$%s$%02d$%s" % (prefix, rounds, salt)


def hashpw(password: bytes, salt: bytes) -> bytes:
    hashed: bytes = _crypt(password, salt)
    if not hashed.startswith(b"$2"):
        raise ValueError("Invalid salt")
    return hashed


def checkpw(password: bytes, hashed_password: bytes) -> bool:
    return hmac.compare_digest(hashpw(password, hashed_password), hashed_password)
