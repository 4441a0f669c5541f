"""A real file system that can be full."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Disk:
    """A real file system that can be full: a tmpfs.

    Who may not mount one gets it in a mount namespace of his own, which a sleeping process holds and through which it
    is seen. Where the system refuses that too, the tests fail and say so: they are not skipped in silence.
    """

    path: Path
    holder: subprocess.Popen[bytes] | None

    @classmethod
    def mounted(cls, place: Path, n_bytes: int) -> Disk:
        place.mkdir()
        mount = ["mount", "-t", "tmpfs", "-o", f"size={n_bytes}", "tmpfs", str(place)]
        if os.geteuid() == 0 and subprocess.run(mount, check=False, capture_output=True).returncode == 0:
            return cls(place, None)
        held = [
            "unshare",
            "--user",
            "--map-root-user",
            "--mount",
            "sh",
            "-c",
            '"$@" && echo ready && exec sleep 3600',
            "-",
        ]
        holder = subprocess.Popen([*held, *mount], stdout=subprocess.PIPE)
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"ready\n", "no disk of a limited size can be made here"
        return cls(Path(f"/proc/{holder.pid}/root{place}"), holder)

    def fill(self, *, but: int) -> Path:
        """Somebody else's file, which leaves so many bytes; where none, it also takes what others let go meanwhile."""
        filler = self.path / "filler"
        with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError if but == 0 else ()):
            while (room := shutil.disk_usage(self.path).free - but) > 0:
                file.write(b"x" * room)
        return filler

    def freeze(self) -> None:
        """From now on it can only be read."""
        remount = ["mount", "-o", "remount,ro"]
        if self.holder is None:
            subprocess.run([*remount, str(self.path)], check=True)
            return
        place = "/" + str(self.path).split("/root/", 1)[1]
        into = ["nsenter", "--target", str(self.holder.pid), "--user", "--mount", "--preserve-credentials"]
        subprocess.run([*into, *remount, place], check=True)

    def let_go(self) -> None:
        if self.holder is None:
            subprocess.run(["umount", "-l", str(self.path)], check=True)
        else:
            self.holder.kill()
            self.holder.communicate()
