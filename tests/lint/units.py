#!/usr/bin/env python3
"""Few files, and few headers that serve a single unit: such a header belongs into its user."""

import re

import checkout
import layers

MAX_PRODUCT_FILES = 1050
MAX_SINGLE_USER = 0.15  # of all headers
USERS = ("tests/", "bench/", "plugins/")

_INCLUDE = re.compile(r'#include "([^"]+)"')


def single_user_headers(sources):
    """Headers of the product with one user, and headers in all. A user is another unit of the product;
    a header that a test, benchmark or plugin includes too is an interface, not a candidate."""
    users, is_shared = {}, set()
    for name, source in sources.items():
        unit = layers.unit_of(name)
        for header in _INCLUDE.findall(source):
            if layers.unit_of(header) == unit:
                continue
            if layers.room_of(name):
                users.setdefault(header, set()).add(unit)
            else:
                is_shared.add(header)
    headers = [name for name in sources if name.endswith(".h") and layers.room_of(name)]
    single = {name: next(iter(users[name])) for name in headers
              if len(users.get(name, ())) == 1 and name not in is_shared}
    return single, len(headers)


def problems_in(sources):
    found = []
    files = sum(1 for name in sources if layers.room_of(name))
    if files > MAX_PRODUCT_FILES:
        found.append(f"{files} product files, at most {MAX_PRODUCT_FILES} are allowed: merge small units")
    single, headers = single_user_headers(sources)
    if len(single) >= MAX_SINGLE_USER * headers > 0:
        found += [f"{name}: only '{user}' includes it: fold it into that unit or test it"
                  for name, user in sorted(single.items())]
        found.append(f"{len(single)} of {headers} headers have a single user,"
                     f" {MAX_SINGLE_USER:.0%} or more")
    print(f"{files} product files; {len(single)} of {headers} headers have a single user")
    return found


if __name__ == "__main__":
    checkout.finish(problems_in({name: checkout.read(name) for name in checkout.files(".h", ".cpp")
                                 if layers.room_of(name) or name.startswith(USERS)}))
