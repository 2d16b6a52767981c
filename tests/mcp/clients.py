#!/usr/bin/env python3
"""`gpumend mcp` with the official clients of the protocol, which validate what they get.

    tests/mcp/clients.py GPUMEND FOLDER

FOLDER keeps what is downloaded: the Python package mcp and the npm packages @modelcontextprotocol/client, the
TypeScript client that speaks both eras, and @modelcontextprotocol/sdk, its predecessor.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

MCP = "mcp==2.3.0"
NPM = ("@modelcontextprotocol/sdk@1.32.2", "@modelcontextprotocol/client@2.4.0")

PYTHON = """
import asyncio, json, sys
from mcp import Client, StdioServerParameters, stdio_client

CALLS = json.loads(sys.argv[3])

async def main():
    server = StdioServerParameters(command=sys.argv[1], args=["mcp"])
    async with Client(stdio_client(server), mode=sys.argv[2]) as client:
        tools = (await client.list_tools()).tools
        done = []
        for name, arguments in CALLS:
            result = await client.call_tool(name, arguments)
            done.append([name, result.is_error, sorted(result.structured_content or {}) if not result.is_error
                         else str(result.content)[:500]])
        print(json.dumps({"version": client.protocol_version, "tools": [t.name for t in tools], "done": done}))

asyncio.run(main())
"""

NODE = """
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';

const client = new Client({ name: 'test', version: '1' });
await client.connect(new StdioClientTransport({ command: process.argv[2], args: ['mcp'] }));
const tools = (await client.listTools()).tools;
const done = [];
for (const [name, args] of JSON.parse(process.argv[3])) {
    const result = await client.callTool({ name, arguments: args });
    done.push([name, !!result.isError, Object.keys(result.structuredContent ?? {}).sort()]);
}
console.log(JSON.stringify({ version: client.getNegotiatedProtocolVersion?.() ?? null,
                             tools: tools.map(t => t.name), done }));
await client.close();
"""

# `{ pin: VERSION }` speaks that version and no other.
NODE2 = NODE.replace("sdk/client/index.js", "client").replace("sdk/client/stdio.js", "client/stdio").replace(
    "version: '1' });", "version: '1' },\n                          { versionNegotiation: { mode: JSON.parse("
    "process.argv[4]) } });")

CALLS = [("check", {"target": "/bin/ls"}), ("check", {"target": sys.executable}),
         ("check", {"target": sys.executable, "detail": True}), ("why", {"exe": "/bin/ls", "name": "libcuda.so.1"}),
         ("explain", {"text": "RuntimeError: CUDA failed with error CUDA driver version is insufficient for CUDA "
                              "runtime version"}),
         ("plan", {"target": sys.executable}), ("choose", {}), ("devices", {}),
         ("kb", {"question": "which driver does CUDA 12.4 need"}),
         ("setup", {"app": "whisperx"}), ("setup", {"app": "torch", "machine": "rx-7900-xtx-windows"}),
         ("needs", {"target": sys.executable}), ("needs", {"target": sys.executable, "nodes": ["/"]})]


def python_client(folder):
    python = folder / "python/bin/python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder / "python")], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "-q", MCP], check=True)
    return str(python)


def node_client(folder):
    home = folder / "node"
    if not (home / "node_modules/@modelcontextprotocol/client").exists():
        home.mkdir(parents=True, exist_ok=True)
        (home / "package.json").write_text('{"type": "module"}')
        subprocess.run(["npm", "install", "--silent", "--no-audit", "--no-fund", *NPM], cwd=home, check=True)
    (home / "client.mjs").write_text(NODE)
    (home / "client2.mjs").write_text(NODE2)
    return str(home / "client.mjs"), str(home / "client2.mjs")


def windows_tree(folder):
    """A Windows tree without a Python, whose document has a schema of its own."""
    (folder / "windows/Windows/System32").mkdir(parents=True, exist_ok=True)
    return ("check", {"root": str(folder.resolve() / "windows")})


def snapshots(exe, folder):
    """Two of this machine, of different programs."""
    files = []
    for name, target in (("before", "/bin/ls"), ("after", sys.executable)):
        files.append(str(folder.resolve() / f"{name}.json"))
        with open(files[-1], "wb") as file:
            subprocess.run([exe, "snapshot", target], stdout=file, timeout=60, check=True)
    return ("compare", dict(zip(("before", "after"), files)))


def main():
    exe, folder = os.path.abspath(sys.argv[1]), Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    wanted = [*CALLS, windows_tree(folder), snapshots(exe, folder)]
    calls = json.dumps(wanted)
    python, (node, node2) = python_client(folder), node_client(folder)
    runs = {f"Python, {mode}": ([python, "-c", PYTHON, exe, mode, calls], version)
            for mode, version in (("auto", "2026-07-28"), ("legacy", "2025-11-25"), ("2026-07-28", "2026-07-28"))}
    runs["TypeScript, before version 2"] = (["node", node, exe, calls], None)
    for mode, version in (("auto", "2026-07-28"), ("legacy", "2025-11-25"), ({"pin": "2026-07-28"}, "2026-07-28")):
        runs[f"TypeScript, {mode}"] = (["node", node2, exe, calls, json.dumps(mode)], version)
    failed = 0
    for name, (command, version) in runs.items():
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        answer = json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 and done.stdout else {}
        holds = (answer.get("tools") and (not version or answer["version"] == version) and
                 [d[0] for d in answer["done"]] == [c[0] for c in wanted] and
                 all(not d[1] and d[2] for d in answer["done"]))
        failed += not holds
        print(f"{name}: {answer.get('version')}, {len(answer.get('done', []))} calls" if holds else
              f"FAIL {name}: {done.returncode} {str(answer)[-800:]} {done.stderr[-1500:]}")
    print(f"{len(runs) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
