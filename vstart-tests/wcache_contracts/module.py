"""A mgr module for tests: does what the contracts say, and tells what Ceph made of it.

Its command `wcache_contracts held` answers with {"problems": [...], "answers": {...}}, and
`wcache_contracts parts` with what a mgr knows at that moment of single OSDs.
"""

import importlib
import inspect
import json
import os
import sys
import threading

from mgr_module import MgrModule

PROJECT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
sys.path.append(os.path.join(PROJECT, "qa"))

from mgr_fakes import contracts, watch  # noqa: E402
from mgr_fakes.contract_tree import Held, tree_of  # noqa: E402

ANSWER_S = 30.0
# Commands that a release's packages refuse: Debian's 16 is built without tcmalloc.
REFUSED = {16: ("heap",), 18: (), 20: ()}
COUNTERS_S = 20.0  # an OSD tells its counters each 5 s


class Reply:
    """What a command was answered."""

    def __init__(self):
        self.come = threading.Event()
        self.code, self.out, self.error = 0, "", ""

    def complete(self, r, outb, outs):
        self.code, self.out, self.error = r, outb, outs
        self.come.set()


class Module(MgrModule):
    """`mgr/wcache_contracts`."""

    COMMANDS = [  # noqa: RUF012
        {"cmd": "wcache_contracts held", "desc": "what was found", "perm": "r"},
        {"cmd": "wcache_contracts parts", "desc": "what is known of single OSDs", "perm": "r"},
    ]
    NOTIFY_TYPES = []  # noqa: RUF012
    if hasattr(importlib.import_module("mgr_module"), "CLICommandBase"):
        CLICommand = importlib.import_module("mgr_module").CLICommandBase.make_registry_subtype(
            "ContractsCLICommand"
        )

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.found = None
        self.problems = []
        self.answers = {}
        self.ends = threading.Event()

    def handle_command(self, inbuf, cmd):
        if cmd["prefix"].endswith("parts"):
            return 0, json.dumps(self.parts()), ""
        if self.found is None:
            return -11, "", "not yet"
        return 0, json.dumps(self.found), ""

    def parts(self):
        """What the mgr has of single OSDs now, and the types of keys that JSON would hide."""
        summary, osd_map = self.get("pg_summary"), self.get("osd_map")
        return {
            "pg_summary": {"all": dict(summary["all"]), "by_osd": {
                key: dict(states) for key, states in summary["by_osd"].items()
            }},
            "keys": sorted({type(key).__name__ for key in summary["by_osd"]}),
            "checks": json.loads(self.get("health")["json"])["checks"],
            "osds": [
                {key: each[key] for key in ("osd", "up", "in", "state")}
                for each in osd_map["osds"]
            ],
            "flags": osd_map["flags"],
            "crush_node_flags": osd_map["crush_node_flags"],
            "device_class_flags": osd_map["device_class_flags"],
        }

    def shutdown(self):
        self.ends.set()

    def serve(self):
        # mgrs import all modules: another one is here only if it shares this interpreter
        alone = "wcache.module" not in sys.modules and "progress.module" not in sys.modules
        self.number = int(self.version.split()[2].split(".")[0])
        try:
            self.methods()
            self.other_modules()
            self.calls()
            self.commands()
        except Exception as error:
            self.log.exception("contracts")
            self.problems.append(repr(error))
        self.found = {
            "release": self.number, "problems": self.problems, "answers": self.answers,
            "alone": alone,
        }
        self.ends.wait()

    def methods(self):
        """Each method is there, and takes these arguments by name."""
        for name, arguments in contracts.METHODS.items():
            only = contracts.METHODS_ONLY.get(name, (self.number,))
            if hasattr(self, name) != (self.number in only):
                self.problems.append(f"{name}: {'is' if hasattr(self, name) else 'is not'} there")
            elif hasattr(MgrModule, name) and callable(getattr(MgrModule, name)):
                self.takes(name, getattr(MgrModule, name), ("self", *arguments))

    def takes(self, name, method, arguments):
        """Whether a method can be called with the arguments by their place."""
        parameters = inspect.signature(method).parameters.values()
        named = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
        given = [argument for argument in arguments if argument not in ("args", "kwargs")]
        needed = [
            p.name for p in parameters
            if p.kind is p.POSITIONAL_OR_KEYWORD and p.default is p.empty
        ]
        if named[:len(given)] != given or not set(needed) <= set(given):
            self.problems.append(f"{name} takes {named}, not {given}")

    def other_modules(self):
        """Also the client's own part, which `ceph/surroundings.py` uses, and a host's name."""
        interface = importlib.import_module("orchestrator")
        host = importlib.import_module("ceph.deployment.hostspec").HostSpec("h", labels=["l"])
        owners = {
            "progress": importlib.import_module("progress.module").Module,
            "orchestrator": interface.Orchestrator,
        }
        for owner, methods in contracts.REMOTE.items():
            for name, arguments in methods.items():
                self.takes(f"{owner}.{name}", getattr(owners[owner], name), ("self", *arguments))
        self.takes("set_mgr", interface.OrchestratorClientMixin.set_mgr, ("self", "mgr"))
        self.takes("raise_if_exception", interface.raise_if_exception, ("c",))
        assert host.hostname == "h"
        self.inventory = json.dumps({"h": host.to_json()})  # as cephadm keeps it

    def calls(self):
        """Each answer is as its paths say."""
        for name, arguments, paths in contracts.CALLS:
            if self.number not in contracts.METHODS_ONLY.get(name, (self.number,)):
                continue
            key = " ".join([name, *(str(one) for one in arguments)])
            if not self.ours(paths):
                continue
            answer = getattr(self, name)(*arguments)
            for _ in range(int(COUNTERS_S)):
                if name not in contracts.METHODS_ONLY or any(answer.values()):
                    break
                self.ends.wait(1.0)
                answer = getattr(self, name)(*arguments)
            self.hold(key, paths, json.loads(json.dumps(answer)))

    def ours(self, paths):
        """Whether the answer is for this release: the one whose whole is of others is not."""
        releases = {word for word in paths.get("*/[]/[]", paths.get("", "")).split()[1:]}
        return not releases or str(self.number) in releases

    def hold(self, key, paths, answer):
        held = Held(tree_of(paths), answer, self.number)
        self.problems += [f"{key}: {problem}" for problem in held.problems]
        self.answers[key] = held.kept

    def commands(self):
        """Each command is taken with these arguments, and answered as its paths say."""
        known = {
            "mon": self.descriptions("mon", ""), "osd": self.descriptions("osd", "0"),
        }
        for whom, command, paths in contracts.COMMANDS:
            self.signature(known[whom], whom, command)
            filled = {
                key: self.inventory if value == "INVENTORY" else value
                for key, value in command.items()
            }
            reply = self.ask(whom, "0" if whom == "osd" else "", filled)
            key = watch.asked(whom, json.dumps(command))[1]
            if reply.code != 0 and whom == "mon":
                self.problems.append(f"{key}: refused: {reply.error} ({reply.code})")
            elif paths:
                self.hold(key, paths, json.loads(reply.out))
            elif whom == "osd":
                self.answers[key] = reply.out
            # an OSD's code is lost, so that whoever asks takes no output for a failure
            if whom == "osd" and not (reply.out or command["prefix"] in REFUSED[self.number]):
                self.problems.append(f"{key}: no output: {reply.error} ({reply.code})")
        try:
            self.send_command(Reply(), "mgr", "", json.dumps({"prefix": "mgr stat"}), "")
            self.problems.append("send_command knows the service `mgr` by now")
        except ValueError:
            pass

    def ask(self, whom, who, command):
        reply = Reply()
        self.send_command(reply, whom, who, json.dumps({**command, "format": "json"}), "")
        if not reply.come.wait(ANSWER_S):
            raise RuntimeError(f"no answer to {command}")
        return reply

    def descriptions(self, whom, who):
        """The arguments of each command, {prefix: [{name: must it be there}]}."""
        plain = json.loads(self.ask(whom, who, {"prefix": "get_command_descriptions"}).out)
        found = {}
        for item in plain.values():
            words = [word for word in item["sig"] if isinstance(word, str)]
            arguments = [word for word in item["sig"] if isinstance(word, dict)]
            # a word of the prefix may stand there as an argument of its own kind
            words += [one["prefix"] for one in arguments if one.get("type") == "CephPrefix"]
            found.setdefault(" ".join(words), []).append({
                one["name"]: one.get("req", True) not in (False, "false")
                for one in arguments if one.get("type") != "CephPrefix"
            })
        return found

    def signature(self, known, whom, command):
        given = set(command) - {"prefix"}
        for arguments in known.get(command["prefix"], ()):
            needed = {name for name, must in arguments.items() if must}
            if given <= set(arguments) and needed <= given:
                return
        self.problems.append(
            f"{whom} {command['prefix']} takes {known.get(command['prefix'])}, not {sorted(given)}"
        )
