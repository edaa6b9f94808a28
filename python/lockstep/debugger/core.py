"""Post-mortems (`lockstep exec --core DIR`): JSON with the frames and variables of each rank when the run stopped."""

import json
import os
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
        index = {"format": 1, "time": int(time.time()), "folder": os.getcwd(), "command": self.command,
                 "ranks": max(hub.expected, len(hub.ranks)), "finding": hub.found,
                 "raised": {rank.number: rank.reason for rank in raised}}
        try:
            made = self._ask("folder " + os.path.abspath(self.folder))["folder"]
            what = f"a post-mortem of {len(files)} ranks" if files else self._keep_cores(index)
            for name, content in [*files.items(), ("core.json", index)]:
                content.pop("id", None)
                with open(os.path.join(made, name), "w", encoding="utf-8") as file:
                    json.dump(content, file)
            os.rename(made, self.folder)
        except OSError as error:
            print(f"lockstep exec: no post-mortem is saved in {self.folder}: {error.strerror}", file=sys.stderr)
        else:
            print(f"lockstep exec: saved {what} in {self.folder}; "
                  f"lockstep gdb --core {self.folder} opens it", file=sys.stderr)

    def _ask(self, word):
        """The coordinator's answer. It removes the folder, unless that is renamed, also if this process is killed."""
        answer = self.hub.ask_coordinator(word, DUMP_SECONDS)
        if answer.get("error"):
            raise OSError(0, answer["error"])
        return answer

    def _keep_cores(self, index):
        """Ranks that are not Python programs: a core file of each."""
        cores, told = self._ask("cores")["cores"], self.hub.look()
        index["cores"] = [{**one, "file": f"rank{one['rank']}.core", "call": told.get(one["rank"], {}).get("call", "")}
                          for one in cores if not one["error"]]
        missing = [f"rank {one['rank']}: {one['error']}" for one in cores if one["error"]]
        if not index["cores"]:
            raise OSError(0, missing[0] if missing else "no rank runs")
        left_out = sum(one["left_out"] for one in index["cores"])
        less = f" (without {left_out / 1e6:.1f} MB of memory, for which they have no room)" if left_out else ""
        return f"core files of {len(index['cores'])} ranks{less}" + (f" (not of {'; '.join(missing)})" if missing else "")
