"""The domain that a name was registered under: whoever holds it decides about all names below it, without a limit.

The public suffix list is part of the package `publicsuffixlist`, so nothing is fetched; the last two labels would
take `co.uk` for one owner, and tldextract fetches a list unless it is told not to, with four more packages.
Below a suffix of the private section (`github.io`) everybody is an owner too.
"""

from functools import lru_cache

from publicsuffixlist import PublicSuffixList

_SUFFIXES = PublicSuffixList()


@lru_cache(maxsize=4096)
def registrable(host: str) -> str:
    """`example.co.uk` of `hooks.eu.example.co.uk`; a public suffix and an address stand for themselves.

    `host`: as in `target.Target`, in lower case.
    """
    is_address = host.startswith("[") or host.rpartition(".")[2].isdigit()
    return host if is_address else _SUFFIXES.privatesuffix(host) or host
