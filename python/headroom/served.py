"""Data of this process for one that trains: samples over a socket, as they are asked for.

The child (own.py) imports neither NumPy nor a framework, so it gets bytes: it asks for (source, epoch, index), and a thread here calls
the dataset or the loader, in the order of the questions.  What they raise goes back as a sentence, and is the __cause__ here."""
from __future__ import annotations

import ctypes as c
import socket
import struct
import threading
from typing import Any, Optional, Sequence

from .models import Input
from .sources import Data, Field, Reader

ASK, ANSWER = struct.Struct("<IQQ"), struct.Struct("<IQ")
SAMPLE, END, FAILED = 0, 1, 2


def receive(connection: socket.socket, size: int) -> bytearray:
    """Exactly so many bytes; EOFError when the other side has gone."""
    data = bytearray(size)
    view, at = memoryview(data), 0
    while at < size:
        got = connection.recv_into(view[at:])
        if not got:
            raise EOFError
        at += got
    return data


class Server:
    """Answers the child until it ends.  `failure` is the first thing that a source raised."""

    def __init__(self) -> None:
        self.here, self.there = socket.socketpair()
        self.readers: list[Reader] = []
        self.failure: Optional[BaseException] = None
        self.thread: Optional[threading.Thread] = None

    def add(self, source: Data, inputs: Sequence[Input]) -> dict[str, Any]:
        """What the child must know of a source."""
        reader = Reader(source, inputs)
        self.readers.append(reader)
        return {"served": len(self.readers) - 1, "count": source.count(), "shuffle": source.shuffle, "buffer": source.buffer,
                "names": [i.name for i in reader.to], "metas": reader.metas}

    def start(self) -> None:
        self.thread = threading.Thread(target=self._answer, name="headroom data", daemon=True)
        self.thread.start()

    def _answer(self) -> None:
        try:
            while True:
                which, epoch, index = ASK.unpack(receive(self.here, ASK.size))
                kind, parts = self._read(which, epoch, index)
                self.here.sendall(ANSWER.pack(kind, sum(len(p) for p in parts)))
                for p in parts:
                    self.here.sendall(p)
        except (EOFError, OSError):  # the child has ended, or nobody waits for it any more
            return

    def _read(self, which: int, epoch: int, index: int) -> tuple[int, list[Any]]:
        try:
            fields = self.readers[which].read(epoch, index)
        except StopIteration:
            return END, []
        except BaseException as e:
            if self.failure is None:
                self.failure = e
            return FAILED, [f"{type(e).__name__}: {e}".encode()[:1000]]
        return SAMPLE, [memoryview((c.c_char * f.size).from_address(f.address)) for f in fields if f.size] if fields else []

    def close(self) -> None:
        self.there.close()
        self.here.close()
        if self.thread is not None:
            self.thread.join()


# ---- the child ----


class Place:
    """An input by its name: all that a pipeline needs of it."""

    order = None

    def __init__(self, name: str) -> None:
        self.name = name


class RemoteReader:
    """A source that another process has."""

    def __init__(self, connection: socket.socket, lock: Any, told: dict[str, Any]) -> None:
        from .library import library, make_meta

        self.connection, self.lock, self.number = connection, lock, int(told["served"])
        self.to = [Place(name) for name in told["names"]]
        self.metas = [(str(t), tuple(dims)) for t, dims in told["metas"]]
        self.sizes = [int(library().hr_meta_bytes(c.byref(make_meta(*m)))) for m in self.metas]

    def read(self, epoch: int, index: int) -> list[Field]:
        with self.lock:
            self.connection.sendall(ASK.pack(self.number, epoch, index))
            kind, size = ANSWER.unpack(receive(self.connection, ANSWER.size))
            data = receive(self.connection, size)
        if kind == END:
            raise StopIteration
        if kind == FAILED:
            raise Told(data.decode(errors="replace"))
        whole = (c.c_char * len(data)).from_buffer(data)
        fields, at = [], c.addressof(whole)
        for n in self.sizes:
            fields.append(Field(at, n, whole))
            at += n
        return fields


class Told(Exception):
    """What the other process says of a failure, which has the name of its class in it."""


class Remote(Data):
    """Data in the child."""

    def __init__(self, connection: socket.socket, lock: Any, told: dict[str, Any]) -> None:
        super().__init__(stream=None if told["count"] is not None else self, shuffle=told["shuffle"], buffer=int(told["buffer"]))
        self.connection, self.lock, self.told = connection, lock, told

    def count(self) -> Optional[int]:
        return None if self.told["count"] is None else int(self.told["count"])

    def reader(self, inputs: Sequence[Input]) -> Any:
        return RemoteReader(self.connection, self.lock, self.told)
