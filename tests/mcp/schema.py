#!/usr/bin/python3
"""Every message of the server against the official schemas of the Model Context Protocol.

    tests/mcp/schema.py GPUMEND [SCHEMAS]

SCHEMAS is the folder `schema` of github.com/modelcontextprotocol/modelcontextprotocol, or the variable
MCP_SCHEMAS has it; without either this is skipped. For each version of the protocol: how a session begins, the
list of tools, a call of each tool, one that a tool refuses, and what is wrong by the protocol. Answers have to
be what the version's schema says of them, and so have the requests that this sends.
"""

import json
import os
import sys
import tempfile
from pathlib import Path

import run
from run import PROGRAM, Server, check, world

VERSIONS = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"]
CALLS = {
    "check": {"target": PROGRAM, "root": "{top}/w"},
    "why": {"name": "libnowhere.so.1", "exe": PROGRAM, "root": "{top}/w"},
    "explain": {"text": "ImportError: libcudnn.so.9: cannot open shared object file"},
    "plan": {"target": "/nowhere"}, "choose": {"model": "whisper:tiny"}, "devices": {},
    "kb": {"question": "which driver does CUDA 12.4 need"}, "needs": {"target": "/nowhere"},
    "setup": {"app": "torch", "machine": "rtx-3060-linux"}, "compare": {"before": "/nowhere", "after": "/nowhere"}}
REFUSED = ("plan", "needs", "compare")  # there is no /nowhere


def definitions(folder, version):
    document = json.loads((folder / version / "schema.json").read_text())
    return "$defs" if "$defs" in document else "definitions", document


def faults(schemas, name, value):
    import jsonschema

    key, document = schemas
    if name not in document[key]:
        return [f"{name} is not in the schema"]
    return [f"{'/'.join(map(str, e.absolute_path))}: {e.message[:200]}" for e in
            jsonschema.validators.validator_for(document)({**document, "$ref": f"#/{key}/{name}"}).iter_errors(value)]


def is_valid(title, schemas, name, value):
    found = faults(schemas, name, value)
    check(title, not found, found[:3])


def version_holds(exe, schemas, version, top):
    modern = version == "2026-07-28"
    s = Server(exe)
    if modern:
        first, name = s.ask("server/discover", modern=True), "DiscoverResult"
    else:
        first = s.ask("initialize", {"protocolVersion": version, "capabilities": {},
                                     "clientInfo": {"name": "test", "version": "1"}})
        name = "InitializeResult"
        check(f"{version}: is spoken", first["result"]["protocolVersion"] == version, first)
    is_valid(f"{version}: {name}", schemas, name, first["result"])
    listed = s.ask("tools/list", modern=modern)
    is_valid(f"{version}: ListToolsResult", schemas, "ListToolsResult", listed["result"])
    named = [t["name"] for t in listed["result"]["tools"]]
    check(f"{version}: each tool is called", sorted(named) == sorted(CALLS), named)
    for tool, given in CALLS.items():
        arguments = {k: v.format(top=top) for k, v in given.items()}
        answer = s.ask("tools/call", {"name": tool, "arguments": arguments}, modern)
        is_valid(f"{version}: {tool}", schemas, "CallToolResult", answer["result"])
        refused = bool(answer["result"].get("isError"))
        check(f"{version}: {tool} is {'refused' if tool in REFUSED else 'answered'}",
              refused == (tool in REFUSED), answer)
        wrong = s.ask("tools/call", {"name": tool, "arguments": {"no such": 1}}, modern)
        is_valid(f"{version}: {tool}, a wrong argument", schemas,
                 "CallToolResult" if "result" in wrong else "JSONRPCError" if not modern and
                 "JSONRPCError" in schemas[1][schemas[0]] else "JSONRPCErrorResponse", wrong.get("result", wrong))
    for title, method, params in (("an unknown method", "no/such", {}),
                                  ("an unknown tool", "tools/call", {"name": "no such", "arguments": {}})):
        answer = s.ask(method, params, modern)
        kind = "JSONRPCError" if "JSONRPCError" in schemas[1][schemas[0]] else "JSONRPCErrorResponse"
        is_valid(f"{version}: {title}", schemas, kind, answer)
    if modern:
        answer = s.ask("tools/list", {"_meta": {"io.modelcontextprotocol/protocolVersion": "2031-01-01"}})
        is_valid(f"{version}: a version of the future", schemas, "UnsupportedProtocolVersionError", answer)
    check(f"{version}: it ends with its input", s.end()[0] == 0)


def main():
    exe = os.path.abspath(sys.argv[1])  # the server is started in another folder
    given = sys.argv[2] if len(sys.argv) > 2 else os.environ.get("MCP_SCHEMAS")
    if not given:
        print("skipped: the official schemas are not here (MCP_SCHEMAS)\n0 passed, 0 failed, 1 skipped")
        return 0
    with tempfile.TemporaryDirectory() as top:
        world(Path(top) / "w")
        for version in VERSIONS:
            version_holds(exe, definitions(Path(given), version), version, top)
    print(f"{run.passes} passed, {run.failures} failed")
    return 1 if run.failures else 0


if __name__ == "__main__":
    sys.exit(main())
