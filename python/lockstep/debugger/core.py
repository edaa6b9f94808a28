"""Post-mortems (`lockstep exec --core DIR`): JSON with the frames and variables of each rank when the run stopped."""

import json
import os
import shutil
import sys
import time

from lockstep.debugger.hub import FOUND_SECONDS, STOPPED, Hub

DUMP_SECONDS = 60


class Core:
    """A frontend without a prompt: writes the first stop and lets the run end."""

    def __init__(self, folder, command):
        self.folder, self.command, self.done = folder, command, False
        self.hub = Hub(command, own_group=False, limit=FOUND_SECONDS, stops=False)

    def run(self):
        while self.hub.gather():
            if not self.done:
                self.done = True
                self.keep()
            self.hub.resume("cont")
        return self.hub.finish()

    def keep(self):
        hub = self.hub
        raised = [rank for rank in hub.living() if rank.state == STOPPED and rank.reason != "paused"]
        dumps = hub.ask(hub.living(), "dump", DUMP_SECONDS)
        files = {f"rank{number}.json": dump for number, dump in dumps.items() if "error" not in dump}
        if not files:
            print("lockstep exec: no post-mortem is saved: no running rank is a Python program", file=sys.stderr)
            return
        files["core.json"] = {"format": 1, "time": int(time.time()), "folder": os.getcwd(), "command": self.command,
                              "ranks": max(hub.expected, len(hub.ranks)), "finding": hub.found,
                              "raised": {rank.number: rank.reason for rank in raised}}
        made = f"{self.folder}.{os.getpid()}"
        try:
            os.makedirs(made)
            for name, content in files.items():
                content.pop("id", None)
                with open(os.path.join(made, name), "w", encoding="utf-8") as file:
                    json.dump(content, file)
            os.rename(made, self.folder)
        except OSError as error:
            shutil.rmtree(made, ignore_errors=True)
            print(f"lockstep exec: cannot save a post-mortem in {self.folder}: {error.strerror}", file=sys.stderr)
        else:
            print(f"lockstep exec: saved a post-mortem of {len(files) - 1} ranks in {self.folder}; "
                  f"lockstep gdb --core {self.folder} opens it", file=sys.stderr)
