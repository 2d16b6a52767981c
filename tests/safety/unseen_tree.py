"""A tree, an environment, an image, a snapshot and a log in which every name is hostile.

`make(exe, folder, text, files)` makes them for one text (bytes without a NUL) and yields the
command lines that look at them. Nothing in them does anything.
"""
import hashlib
import io
import json
import os
import subprocess
import tarfile

# A name that is compiled in, and then replaced by the text: twice as long as the longest of them.
MARK = b"Q" * 40
SITE = "lib/python3.11/site-packages"


def compiled(folder):
    """A library that is called MARK and has it as RUNPATH, and two files that need it."""
    source = b"int here(void); int here(void) { return 1; }\n"
    library, program = folder / "marked.so", folder / "marked"
    name = MARK.decode()
    subprocess.run(["cc",
    "-shared",
    "-fPIC",
    "-nostdlib",
    "-x",
    "c",
    "-",
    "-o",
    library,
    f"-Wl,-soname,lib{name}.so.1",
    f"-Wl,-rpath,$ORIGIN/{name}"],
    input=source,
     check=True)
    subprocess.run(["cc",
    "-shared",
    "-fPIC",
    "-nostdlib",
    "-x",
    "c",
    "-",
    "-o",
    folder / "needing.so",
    "-Wl,--no-as-needed",
    f"-Wl,-rpath,$ORIGIN/../lib/{name}",
    "-x",
    "none",
    library],
    input=source,
     check=True)
    subprocess.run(["cc", "-nostartfiles", "-x", "c", "-", "-o", program, "-Wl,--no-as-needed",
                    "-Wl,--unresolved-symbols=ignore-all", "-x", "none", library],
                   input=b"void _start(void); void _start(void) { }\n", check=True)
    return {p.name: p.read_bytes() for p in (library, folder / "needing.so", program)}


def put(path, data, mode=0o644):
    folder = os.path.dirname(path)
    os.makedirs(folder, exist_ok=True)
    with open(path, "wb") as file:
        file.write(data)
    os.chmod(path, mode)


def filled(text):
    """The text in the place of MARK."""
    assert len(text) <= len(MARK)
    return text + b"q" * (len(MARK) - len(text))


def put_all(top, text, contents):
    """Files by their paths, in both of which the text takes the place of each @."""
    for path, data in contents.items():
        put(os.path.join(top, path.replace(b"@", text)), data.replace(b"@", text), 0o755)


def environment(top, text, files):
    site = os.path.join(top, SITE.encode())
    needing, marked = (files[n].replace(MARK, filled(text)) for n in ("needing.so", "marked.so"))
    put_all(top, text, {b"pyvenv.cfg": b"home = /usr/bin\nversion = 3.11.2\nprompt = @\n"})
    os.makedirs(os.path.join(top, b"bin"))
    os.symlink("/usr/bin/python3", os.path.join(top, b"bin/python"))
    info = b"ctranslate2-4.5.0.dist-info/"
    put_all(site, text, {
        b"evil.pth": b"/nowhere/@\n@\n",
        b"ctranslate2/__init__.py": b"",
        info + b"METADATA": b"Metadata-Version: 2.1\nName: ctranslate2\nVersion: 4.5.0+@\n"
                            b"Requires-Dist: @ (>=1)\nRequires-Python: >=@\n",
        info + b"WHEEL": b"Wheel-Version: 1.0\nTag: cp39-cp39-@\n",
        info + b"INSTALLER": b"@",
        info + b"direct_url.json": json.dumps({"url": text.decode("latin-1")}).encode(),
        info + b"RECORD": b"ctranslate2/__init__.py,,\nctranslate2/@.so,,\n",
        b"nvidia/cudnn/lib/libcudnn_@.so.9": b"not ELF",
        b"nvidia_@-1.0.dist-info/METADATA": b"Metadata-Version: 2.1\nName: nvidia-@\nVersion: @\n",
        b"torch-2.8.0.dist-info/METADATA": b"Metadata-Version: 2.1\nName: torch\nVersion: 2.8.0\n"
                                           b"Requires-Dist: nvidia-cudnn-cu12 (==@)\n"
                                           b"Requires-Dist: @==1\n",
        b"torch/version.py": b"__version__ = '2.8.0@'\ncuda = '@'\n"})
    put(site + b"/ctranslate2/_ext.cpython-311-x86_64-linux-gnu.so", needing)
    put(site + b"/torch/lib/libtorch_" + text + b".so", needing)
    put(site + b"/ctranslate2.libs/lib" + filled(text) + b".so.1", marked)
    put(site + b"/nvidia/cudnn/lib/libcudnn.so.9", marked)


def machine(top, text, files):
    """A root file system of a machine with a GPU."""
    said = text.decode("latin-1")
    marked = files["marked.so"].replace(MARK, filled(text))
    put_all(top, text, {
        b"etc/os-release": b'ID=debian\nVERSION_ID="@"\nPRETTY_NAME="x @"\n',
        b"etc/ld.so.conf": b"/opt/@\ninclude /etc/@/*.conf\n",
        b"etc/ld.so.preload": b"/lib/" + text.split()[0] + b".so\n",
        b"etc/docker/daemon.json": json.dumps({"default-runtime": said, "data-root": "/" + said,
                                               "runtimes": {said: {"path": said}}}).encode(),
        b"etc/nvidia-container-runtime/config.toml": b'mode = "@"\n[nvidia-container-cli]\n'
                                                     b'root = "/@"\n',
        b"etc/containerd/config.toml": b'version = 2\n[plugins."@"]\n',
        b"etc/cdi/x.yaml": b'cdiVersion: "0.5.0"\nkind: "nvidia.com/@"\ndevices:\n- name: "@"\n'
                           b'  containerEdits:\n    deviceNodes:\n    - path: "/dev/@"\n'
                           b'    mounts:\n    - hostPath: "/@"\n      containerPath: "@"\n',
        b"proc/driver/nvidia/version": b"NVRM version: NVIDIA UNIX x86_64 Kernel Module  @\n",
        b"proc/driver/nvidia/gpus/0000:01:00.0/information": b"Model: \t\t @\nGPU UUID: \t @\n"
                                                             b"Device Minor: \t 0\n",
        b"proc/driver/nvidia/params": b"ModifyDeviceFiles: @\n",
        b"proc/devices": b"Character devices:\n195 nvidia\n234 @\n",
        b"proc/sys/kernel/osrelease": b"6.1.0-@\n",
        b"proc/self/cgroup": b"0::/docker/@\n",
        b"proc/1/environ": b"container=@\0",
        b"proc/1/comm": b"@\n",
        b"proc/cpuinfo": b"processor\t: 0\nvendor_id\t: GenuineIntel\nmodel name\t: @\n"
                         b"flags\t\t: sse2 @\n",
        b"sys/bus/pci/devices/0000:01:00.0/vendor": b"0x10de\n",
        b"sys/bus/pci/devices/0000:01:00.0/device": b"0x2204\n",
        b"sys/bus/pci/devices/0000:01:00.0/class": b"0x030000\n",
        b"sys/bus/pci/devices/0000:01:00.0/label": b"@\n",
        b"sys/module/nvidia/version": b"@\n",
        b"etc/group": b"video:x:44:@\n",
        b"var/lib/dpkg/status": b"Package: nvidia-driver-@\nVersion: @\n"
                                b"Status: install ok installed\n",
        b"usr/local/cuda/version.json": json.dumps({"cuda": {"version": said}}).encode(),
        b"opt/rocm/.info/version": b"@\n"})
    for path in (b"usr/lib/x86_64-linux-gnu/libcuda.so.1",
    b"usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1",
     b"opt/" + text + b"/lib" + filled(text) + b".so.1"):
        put(os.path.join(top, path), marked)
    put(os.path.join(top, b"app/program"), files["marked"].replace(MARK, filled(text)), 0o755)
    os.symlink(b"/nowhere/" + text, os.path.join(top, b"app/link"))
    environment(os.path.join(top, b"env"), text, files)


def image(path, text, top):
    """A saved image of the machine's program, whose configuration is hostile."""
    said = text.decode("utf-8", "surrogateescape").encode("utf-8", "backslashreplace").decode()
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as tar:
        tar.add(os.path.join(top, b"app/program"), "app/program")
        member = tarfile.TarInfo("app/" + text.decode("utf-8", "surrogateescape"))
        tar.addfile(member)
    digest = "sha256:" + hashlib.sha256(layer.getvalue()).hexdigest()
    config = {"architecture": "amd64", "os": "linux", "author": said, "rootfs": {"type": "layers",
              "diff_ids": [digest]}, "config": {"Env": ["PATH=/app:" + said, said + "=" + said],
              "Entrypoint": ["/app/program", said], "Cmd": [said], "User": said,
              "WorkingDir": "/" + said,
              "Labels": {said: said}}, "history": [{"created_by": said}]}
    manifest = [{"Config": "config.json", "RepoTags": [said + ":" + said], "Layers": ["layer.tar"]}]
    with tarfile.open(path, "w") as tar:
        for name, data in (("config.json", json.dumps(config).encode()), ("layer.tar",
                           layer.getvalue()), ("manifest.json", json.dumps(manifest).encode())):
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))


def log(text):
    return (
    b"OSError: libcudnn_" +
    text +
    b".so.9: cannot open shared object file: No such file\n"
    b"/opt/" +
    text +
    b"/lib/libcublas.so.12: version `" +
    text +
    b"' not found (required by /x/" +
    text +
    b".so)\nModuleNotFoundError: No module named '" +
    text +
    b"'\n"
    b"RuntimeError: CUDA error: " +
    text +
    b"\nNVRM: Xid (PCI:0000:01:00): 79, pid='" +
    text +
    b"'\n"
    b"ERROR: pip's dependency resolver: torch 2.8.0 requires nvidia-cudnn-cu12==" +
    text +
    b"\n"
    b"CUDA driver version is insufficient " +
    text +
     b"\n")


def hostile_snapshot(exe, files, folder, text):
    """A snapshot of a plain tree in which each text that is a plain name is the hostile one."""
    plain = b"plainname"
    tree = os.path.join(folder, b"plain")
    machine(tree, plain, files)
    done = subprocess.run([exe, "snapshot", "--root", tree, "/env"],
                          capture_output=True, check=True)
    path = os.path.join(folder, b"snapshot.json")
    escaped = json.dumps(text.decode("utf-8", "replace"))[1:-1].encode()
    put(path, done.stdout.replace(plain, escaped))
    return path


def make(exe, folder, text, files):
    """Yields the command lines; `folder` is empty and this text's own."""
    name = text.replace(b"/", b"")
    root = os.path.join(folder, b"root")
    machine(root, name, files)
    env = os.path.join(folder, b"env-" + name)
    environment(env, name, files)
    saved = os.path.join(folder, b"image-" + name + b".tar")
    image(saved, name, root)
    crash = os.path.join(folder, b"crash.log")
    put(crash, log(name))
    kept = hostile_snapshot(exe, files, folder, name)
    site = os.path.join(env, SITE.encode())
    inside = [["check", "--root", root, t] for t in ("/env", "/app/program", "/app/link")]
    inside += [["check", "--root", root, "/env", "--report"],
               ["check", "--root", root, "/env", "-v"], ["check", "--snapshot", kept],
               ["check", env], ["check", env, "-v"], ["check", env, "--report"],
               ["fix", "--root", root, "/env"], ["fix", env], ["fix", env, "--list"],
               ["fix", env, "--in-process"], ["fix", env, "--undo"], ["enable", env],
               ["disable", env],
               ["choose", "--root", root, "/env"], ["choose", env], ["devices", "--root", root],
               ["why", "--root", root, "--exe", "/app/program"],
               ["why", "--root", root, "libcudnn.so.9", "--exe", "/app/program"],
               ["why", "--exe", env + b"/bin/python", "--load",
                site + b"/ctranslate2/_ext.cpython-311-x86_64-linux-gnu.so"],
               ["container", "check", root], ["container", "check", saved],
               ["container", "check", env],
               ["container", "cdi", "--check", "--folder", root + b"/etc/cdi"],
               ["container", "cdi", "--host", root], ["explain", crash],
               ["explain", crash, "--here"],
               ["snapshot", env], ["snapshot", "--root", root, "/env"],
               ["run", "--print", "--", env + b"/bin/python"], ["kb", "arch", env + b"/bin/python"],
               ["kb", "arch", site + b"/torch/lib/libtorch_" + name + b".so"]]
    inside += [["export", form, "--root", root, "--check", "/env", "--node", text]
               for form in ("ndjson", "npd", "prometheus", "nfd", "slurm")]
    for form in (
    "docker",
    "podman",
    "compose",
    "kubernetes",
    "quadlet",
    "devcontainer",
     "dockerfile"):
        inside += [["container", form, saved, "--host", root], ["container",
            form, "--root", root, "/app/program"], ["container", form, env]]
    for words in inside:
        yield words
        if words[0] not in ("snapshot", "export") and "--report" not in words:
            yield [*words, "--json"] if "--" not in words else [words[0], "--json", *words[1:]]
