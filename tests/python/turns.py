"""turns.py: processes that share a GPU, one of which measures at a time.

Each row of a table is a process, and set-up (imports, tracing, planning, compiling) is done side by side.  What is timed needs the GPU
alone: a row asks for a turn over a pipe and waits for a byte.  The parent gives one turn at a time.  Those of the kind "steps" begin when
all rows that run have asked for one, so that nobody compiles meanwhile, and none is started until the last of them has ended; where
time gets short, they begin earlier, and all other rows are stopped (SIGSTOP).  Time in which a row waits or is stopped is not
its own and does not count in its limit.  A row that ends or is killed gives its turn back, and one that keeps a turn for too long is
killed: nothing waits forever.  A turn inside a turn is the same turn."""
import collections
import contextlib
import os
import select
import signal
import subprocess
import threading
import time

KINDS = ("open", "steps", "ops")  # in this order, where several wait


class Turn:
    """In a row: `with turn("ops"):`.  Without a parent it waits for nothing."""

    def __init__(self, asks=-1, given=-1):
        self.asks, self.given, self.depth, self.lock = asks, given, 0, threading.RLock()

    @contextlib.contextmanager
    def __call__(self, kind):
        with self.lock:
            if self.depth == 0 and self.asks >= 0:
                os.write(self.asks, f"{kind}\n".encode())
                if not os.read(self.given, 1):
                    raise SystemExit("the table has ended")
            self.depth += 1
            try:
                yield
            finally:
                self.depth -= 1
                if self.depth == 0 and self.asks >= 0:
                    os.write(self.asks, b"done\n")

    def around(self, kind, function):
        def alone(*args, **kwargs):
            with self(kind):
                return function(*args, **kwargs)

        return alone


class Row:
    """In the parent: a process that was started, what it says (a file), and whose turn it is."""

    def __init__(self, name, command, log, env):
        asks, self.given = os.pipe(), os.pipe()
        self.name, self.log = name, open(log, "w+")
        self.asks, self.text, self.wants, self.since = asks[0], b"", "", time.time()
        self.own, self.counted = 0.0, time.time()
        self.process = subprocess.Popen([*command, "--turns", f"{asks[1]},{self.given[0]}"], stdout=self.log, stderr=subprocess.STDOUT,
                                        env=env, pass_fds=(asks[1], self.given[0]), start_new_session=True)
        os.close(asks[1])
        os.close(self.given[0])

    def signal(self, number):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, number)

    def heard(self):
        """Words that it has said since."""
        found = os.read(self.asks, 4096)
        *lines, self.text = (self.text + found).split(b"\n")
        return [line.decode() for line in lines]

    def close(self):
        for fd in (self.asks, self.given[1]):
            os.close(fd)


class Table:
    """Runs rows, `jobs` at a time.  `make(name)` gives (command, log, env); `ended(name, text, why)` is called with what a row has said,
    and why it was killed ("" if it was not).  None is started in the last `start` seconds."""

    def __init__(self, names, make, ended, jobs=4, seconds=200.0, limit=90.0, hold=45.0, start=20.0, say=lambda words: None):
        self.todo, self.make, self.ended, self.say = collections.deque(names), make, ended, say
        self.jobs, self.seconds, self.limit, self.hold, self.start = jobs, seconds, limit, hold, start
        self.rows, self.holder, self.kind, self.began = [], None, "", time.time()
        self.held, self.timing = 0.0, False

    def run(self):
        """What had no time is returned."""
        told = time.time()
        try:
            while (self.todo or self.rows) and self.left() > 0:
                self.timing = self.timing and any(r.wants == "steps" for r in self.rows)
                while self.todo and len(self.rows) < self.jobs and not self.timing and self.left() > self.start:
                    name = self.todo.popleft()
                    self.rows.append(Row(name, *self.make(name)))
                if not self.rows:
                    break
                self.listen()
                self.give()
                if time.time() - told > 10:
                    told = time.time()
                    self.say(self.words())
        finally:
            self.release()
            for row in list(self.rows):
                self.end(row, "no time was left")
        return list(self.todo)

    def left(self):
        return self.seconds - (time.time() - self.began)

    def words(self):
        each = [f"{':'.join(r.name)} {'has' if r is self.holder else 'waits for'} {r.wants}" if r.wants else ":".join(r.name)
                for r in self.rows]
        return f"{time.time() - self.began:.0f} s: {len(self.todo)} to do, running: {', '.join(each)}"

    def listen(self):
        ready, _, _ = select.select([r.asks for r in self.rows], [], [], 0.05)
        now = time.time()
        for row in list(self.rows):
            if not row.wants and not (self.kind == "steps" and row is not self.holder) or row is self.holder:
                row.own += now - row.counted
            row.counted = now
            for word in row.heard() if row.asks in ready else ():
                if word == "done":
                    row.wants = ""
                    self.release()
                else:
                    row.wants, row.since = word, now
            if row.process.poll() is not None:
                self.end(row, "")
            elif row is self.holder and now - self.held > self.hold:
                self.end(row, f"it kept its turn for {now - self.held:.0f} s")
            elif row.own > self.limit:
                self.end(row, f"stopped after {row.own:.0f} s of its own")

    def give(self):
        if self.holder is not None:
            return
        waiting = sorted((r for r in self.rows if r.wants), key=lambda r: (KINDS.index(r.wants), r.since))
        if waiting and waiting[0].wants == "steps" and not self.timing:
            last = [r for r in waiting if r.wants == "steps"]
            if len(last) < len(self.rows) and self.left() > 4 + 3 * len(last):
                waiting = [r for r in waiting if r.wants != "steps"]  # others compile
            else:
                self.timing = True
        if not waiting:
            return
        self.holder, self.kind, self.held = waiting[0], waiting[0].wants, time.time()
        for row in self.rows:
            if self.kind == "steps" and row is not self.holder:
                row.signal(signal.SIGSTOP)
        with contextlib.suppress(BrokenPipeError):
            os.write(self.holder.given[1], b".")

    def release(self):
        if self.kind == "steps":
            for row in self.rows:
                row.signal(signal.SIGCONT)
        self.holder, self.kind = None, ""

    def end(self, row, why):
        if why and row.process.poll() is None:
            row.signal(signal.SIGCONT)
            with contextlib.suppress(ProcessLookupError):  # it says where it is
                row.process.send_signal(signal.SIGUSR1)
            with contextlib.suppress(subprocess.TimeoutExpired):
                row.process.wait(0.5)
        row.signal(signal.SIGKILL)  # with the compilers that it started
        row.process.wait()
        self.rows.remove(row)
        if row is self.holder:
            self.release()
        row.log.seek(0)
        text = row.log.read()
        row.log.close()
        row.close()
        self.ended(row.name, text, why)
