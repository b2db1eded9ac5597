"""Who judges memory from outside: a memory cgroup (version 1 or 2) on the host, NVML on a GPU."""
import ctypes
import os
import threading
import time

ROOTS = (1, "/sys/fs/cgroup/memory"), (2, "/sys/fs/cgroup")


class Group:
    """A memory cgroup, with a limit unless that is None; `version` 0 when none can be made."""
    count = 0

    def __init__(self, limit, name="headroom"):
        Group.count += 1
        self.version, self.path = 0, None
        for version, root in ROOTS:
            path = os.path.join(root, "%s-%d-%d" % (name, os.getpid(), Group.count))
            try:
                if version == 2:
                    self.put(root, "cgroup.subtree_control", "+memory")
                os.mkdir(path)
            except OSError:
                continue
            name_of_limit = "memory.limit_in_bytes" if version == 1 else "memory.max"
            if self.put(path, name_of_limit, str(limit) if limit else "-1" if version == 1 else "max"):
                self.put(path, "memory.swappiness" if version == 1 else "memory.swap.max", "0")
                self.version, self.path = version, path
                return
            os.rmdir(path)

    @staticmethod
    def put(folder, name, text):
        try:
            with open(os.path.join(folder, name), "w") as f:
                f.write(text)
            return True
        except OSError:
            return False

    def read(self, name):
        try:
            with open(os.path.join(self.path, name)) as f:
                return f.read()
        except (OSError, TypeError):
            return ""

    def peak(self):
        """The most that was charged to the group, by its own counter; what was read of files counts, too."""
        for name in ("memory.max_usage_in_bytes", "memory.peak"):
            text = self.read(name)
            if text:
                return int(text)
        return 0

    def own(self):
        """What the processes hold now without what was read of files."""
        for line in self.read("memory.stat").splitlines():
            key, _, value = line.partition(" ")
            if key in ("total_rss", "anon"):
                return int(value)
        return 0

    def inside(self, command):
        """The command, started in the group."""
        if not self.version:
            return command
        return ["/bin/sh", "-c", 'echo $$ >"$0/cgroup.procs" && exec "$@"', self.path] + command

    def close(self):
        for _ in range(200):  # the last process leaves it a moment after it was waited for
            try:
                if self.path:
                    os.rmdir(self.path)
                return
            except OSError:
                time.sleep(0.02)


class Process(ctypes.Structure):
    _fields_ = [("pid", ctypes.c_uint), ("bytes", ctypes.c_ulonglong), ("gpu", ctypes.c_uint), ("compute", ctypes.c_uint)]


class Card:
    """A GPU as NVML sees it."""

    def __init__(self, index=0):
        self.nvml, self.device = ctypes.CDLL("libnvidia-ml.so.1"), ctypes.c_void_p()
        if self.nvml.nvmlInit_v2() or self.nvml.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(self.device)):
            raise OSError("NVML has no device")

    def held(self):
        """Bytes of all processes."""
        count, all_ = ctypes.c_uint(256), (Process * 256)()
        if self.nvml.nvmlDeviceGetComputeRunningProcesses_v3(self.device, ctypes.byref(count), all_):
            return 0
        return sum(all_[i].bytes for i in range(count.value) if all_[i].bytes != 2**64 - 1)


class Watch(threading.Thread):
    """The most that a function returned, sampled until stop()."""

    def __init__(self, function, every=0.02):
        super().__init__(daemon=True)
        self.function, self.every, self.most, self.over = function, every, 0, False
        self.start()

    def run(self):
        while not self.over:
            self.most = max(self.most, self.function())
            time.sleep(self.every)

    def stop(self):
        self.over = True
        self.join()
        return self.most
