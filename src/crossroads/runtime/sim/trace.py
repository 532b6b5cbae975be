"""What happened, as one hash, and as lines when someone wants to read them.

Every message that arrived, every timer that fired, every write that became durable, every command,
delivery, start and crash is encoded and goes into a running BLAKE2 hash, in order. The same seed
gives the same hash in any process: nothing that goes in depends on addresses in memory, on Python's
randomised `hash()` or on the order of a set.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from crossroads.node import Address, Command, Delivery, Message, Time, Timer

HASH_BYTES = 16
BUFFER_BYTES = 1 << 16  # one call of the hash for about a thousand messages

Traced = Message | Command | Delivery | Timer | int | str


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing that happened. `source` is a node for messages, else the kind of thing."""

    time: Time
    source: str
    to: Address
    what: Traced


class Trace:
    def __init__(self, *, keep: bool = False) -> None:
        self.entries: list[Entry] | None = [] if keep else None
        self.watch: Callable[[Entry], None] | None = None  # called for each entry, if set
        self._hash = hashlib.blake2b(digest_size=HASH_BYTES)
        self._buffer = bytearray()
        # Mappings and sets sorted: their order is an accident of the process.
        self._encode_into = msgspec.msgpack.Encoder(order="deterministic").encode_into

    def add(self, time: Time, source: str, to: Address, what: Traced) -> None:
        buffer = self._buffer
        self._encode_into((time, source, to, what), buffer, -1)
        if len(buffer) > BUFFER_BYTES:
            self._hash.update(buffer)
            buffer.clear()
        if self.entries is not None or self.watch is not None:
            self._show(Entry(time, source, to, what))

    def add_named(self, time: Time, source: str, to: Address, what: Command | Delivery) -> None:
        """Commands and deliveries carry no tag: their kind is added to what is hashed."""
        self._encode_into(type(what).__name__, self._buffer, -1)
        self.add(time, source, to, what)

    def digest(self) -> str:
        self._hash.update(self._buffer)
        self._buffer.clear()
        return self._hash.hexdigest()

    def _show(self, entry: Entry) -> None:
        if self.entries is not None:
            self.entries.append(entry)
        if self.watch is not None:
            self.watch(entry)
