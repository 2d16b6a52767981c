"""Cases of torchcodec, which opens one library of its own for each release of FFmpeg it supports.

FFmpeg comes from the system. The names of its libraries are those of the releases 4 to 9.
"""

from cases import case
from tree import SYSTEM

PARTS = ("avutil", "avcodec", "avformat", "avdevice", "avfilter", "swscale", "swresample")
MAJORS = {4: (56, 58, 58, 58, 7, 5, 3), 5: (57, 59, 59, 59, 8, 6, 4), 6: (58, 60, 60, 60, 9, 7, 4),
          7: (59, 61, 61, 61, 10, 8, 5), 8: (60, 62, 62, 62, 11, 9, 6),
          9: (61, 63, 63, 63, 12, 10, 7)}
BUNDLED = "av.libs/libavutil-5809ad29.so.60.26.102"


def libraries(release):
    return ["lib%s.so.%d" % pair for pair in zip(PARTS, MAJORS[release])]


def ffmpeg(t, release, without=()):
    for name in libraries(release):
        if name not in without:
            t.lib(SYSTEM + "/" + name)


def torchcodec_before_0_5(t, version, stems):
    """Its libraries by the stems of their names, for FFmpeg 4 to 7."""
    t.python().torch("2.8.0", needed=["libtorch.so"], rpath="$ORIGIN/lib")
    t.lib(t.site + "/torch/lib/libtorch.so")
    t.put(t.site + "/torchcodec/__init__.py", "")
    for release in (4, 5, 6, 7):
        for stem in stems:
            t.lib("%s/torchcodec/libtorchcodec%s%d.so" % (t.site, stem, release),
                  needed=["libtorch.so", *libraries(release)])
    t.dist("torchcodec", version, [])


def torchcodec(t, version="0.7.0", releases=(4, 5, 6, 7), image=False):
    t.python().torch("2.8.0", needed=["libtorch.so"], rpath="$ORIGIN/lib")
    t.lib(t.site + "/torch/lib/libtorch.so")
    t.put(t.site + "/torchcodec/__init__.py", "")
    folder = t.site + "/torchcodec/libtorchcodec_"
    for release in releases:
        t.lib("%score%d.so" % (folder, release), needed=["libtorch.so", *libraries(release)])
        t.lib("%scustom_ops%d.so" % (folder, release),
              needed=["libtorchcodec_core%d.so" % release, *libraries(release)])
        if not image:
            t.lib("%spybind_ops%d.so" % (folder, release), needed=["libtorch.so"])
    for name in ("image", "pybind_ops") if image else ():
        t.lib("%s%s.so" % (folder, name), needed=["libtorch.so"])
    t.dist("torchcodec", version, [])


def pyannote(t):
    """With PyAV, whose own copy of FFmpeg serves nobody else."""
    torchcodec(t)
    for name in ("pyannote", "pyannote/audio", "torchaudio", "av"):
        t.put("%s/%s/__init__.py" % (t.site, name), "")
    t.lib("%s/%s" % (t.site, BUNDLED))
    t.dist("av", "18.1.0", [BUNDLED])
    t.dist("torchaudio", "2.8.0", [])
    t.dist("pyannote-audio", "4.0.7", [],
           requires=["torch>=2.8.0", "torchaudio>=2.8.0", "torchcodec>=0.7.0"])


MISSING = (r"FFmpeg is not installed in a version that torchcodec can use: it looks for "
           r"libavutil\.so\.59, libavutil\.so\.58, libavutil\.so\.57 or libavutil\.so\.56\.")


@case("library-missing", "lib-missing", "libavutil.so.59", severity="warning",
      repair="^apt-get install ffmpeg$", evidence=MISSING)
def pyannote_without_ffmpeg(t, bad):
    """It does without: audio that the program has read itself is taken."""
    pyannote(t)
    if not bad:
        ffmpeg(t, 5)


@case("library-missing", "lib-missing", "libavutil.so.59", repair="^apt-get install ffmpeg$",
      evidence=MISSING)
def torchcodec_without_ffmpeg(t, bad):
    """The program imports torchcodec itself: that fails."""
    torchcodec(t)
    if not bad:
        ffmpeg(t, 4)


def of_suse(t, system):
    torchcodec(t)
    t.put("/usr/bin/zypper", "")
    t.put("/etc/os-release", "ID=%s\n" % system)


@case("library-missing", "lib-missing", "libavutil.so.59", repair="^zypper install ffmpeg$")
def torchcodec_without_ffmpeg_on_tumbleweed(t, bad):
    of_suse(t, "opensuse-tumbleweed")
    if not bad:
        ffmpeg(t, 4)


@case("library-missing", "lib-missing", "libavutil.so.59",
      repair="gpumend does not know its name in this system's own repositories")
def torchcodec_without_ffmpeg_on_leap(t, bad):
    of_suse(t, "opensuse-leap")
    if not bad:
        ffmpeg(t, 4)


@case("library-missing", "lib-missing", "libavutil.so.60", severity="warning",
      repair="^apt-get install ffmpeg$", evidence="reading and writing audio and video files")
def torchcodec_for_images(t, bad):
    """Since 0.16 the import works without FFmpeg, and decodes images."""
    torchcodec(t, "0.17.0", (4, 5, 6, 7, 8), image=True)
    if not bad:
        ffmpeg(t, 8)


@case("undefined-symbol", "symbol-missing", "libtorchcodec_core7.so", severity="warning",
      evidence="av_gone")
def ffmpeg_without_a_symbol(t, bad):
    """The only FFmpeg was built without something: images still decode."""
    torchcodec(t, "0.17.0", (7,), image=True)
    ffmpeg(t, 7)
    symbol = {"name": "av_gone", "lazy": False}
    t.lib("%s/torchcodec/libtorchcodec_core7.so" % t.site,
          needed=["libtorch.so", *libraries(7)], undef=[symbol] if bad else [])


@case("library-wrong-copy", "ld-library-path-shadow", "libavcodec.so.61", severity="warning",
      repair=r"^export LD_LIBRARY_PATH=", evidence="LIBAVCODEC_61.9")
def ffmpeg_of_the_path_too_old(t, bad):
    """Without the folder the rest of this FFmpeg is gone: that is no repair."""
    torchcodec(t, "0.17.0", (7,), image=True)
    for name in libraries(7):
        old = name.startswith("libavcodec") and bad
        t.lib("/opt/ffmpeg/lib/" + name,
              verdef=["LIBAVCODEC_61"] if old else ["LIBAVCODEC_61", "LIBAVCODEC_61.9"])
    t.lib(SYSTEM + "/libavcodec.so.61", verdef=["LIBAVCODEC_61", "LIBAVCODEC_61.9"])
    t.lib("%s/torchcodec/libtorchcodec_core7.so" % t.site, needed=["libtorch.so", *libraries(7)],
          verneed=[{"file": "libavcodec.so.61", "versions": [{"name": "LIBAVCODEC_61.9"}]}])
    return {"env": {"LD_LIBRARY_PATH": "/opt/ffmpeg/lib"}}


@case("library-missing", "lib-missing", "libavdevice.so.59", repair="^apt-get install ffmpeg$",
      evidence=r"libtorchcodec_core5\.so")
def ffmpeg_in_part(t, bad):
    """What counts is the release of FFmpeg that is there, not the newest that is tried."""
    torchcodec(t)
    ffmpeg(t, 5, without=["libavdevice.so.59"] if bad else [])


@case("library-wrong-major", "wrong-major", "libavutil.so.59", evidence=r"libavutil\.so\.60",
      repair=r"^Install a release of torchcodec that can use the FFmpeg of this system")
def ffmpeg_newer_than_torchcodec(t, bad):
    """The system's package is installed: its manager would change nothing."""
    torchcodec(t)
    ffmpeg(t, 8 if bad else 7)


@case("library-wrong-major", "wrong-major", "libavutil.so.59", repair="^apt-get install ffmpeg$")
def ffmpeg_of_the_user_alone(t, bad):
    """One that was built by hand is not the system's."""
    torchcodec_before_0_5(t, "0.2.1", ("",))
    if bad:
        t.lib("/usr/local/lib/libavutil.so.60")
    else:
        ffmpeg(t, 6)


@case("library-missing", "lib-missing", "libavutil.so.59", repair="^apt-get install ffmpeg$",
      evidence="libtorchcodec_decoder7")
def torchcodec_of_0_3(t, bad):
    """With libraries of other names than later releases."""
    torchcodec_before_0_5(t, "0.4.0", ("_decoder", "_custom_ops", "_pybind_ops"))
    if not bad:
        ffmpeg(t, 4)


@case("library-missing", "lib-missing", "libavutil.so.61", severity="warning",
      repair="^apt-get install ffmpeg$")
def torchcodec_with_ffmpeg_9(t, bad):
    torchcodec(t, "0.17.0", (4, 5, 6, 7, 8, 9), image=True)
    if not bad:
        ffmpeg(t, 9)


@case("library-missing", "lib-missing", "libavfilter.so.10", repair="^apt-get install ffmpeg$")
def ffmpeg_in_two_releases(t, bad):
    """The one that is whole serves, whatever of a newer one is there."""
    torchcodec(t)
    ffmpeg(t, 7, without=["libavfilter.so.10"])
    if not bad:
        ffmpeg(t, 5)


@case("library-missing", "lib-missing", "libpython3.11.so.1.0",
      evidence=r"libpython3\.11\.so\.1\.0, which torchcodec \(libtorchcodec_custom_ops5\.so\) needs, "
      r"is not installed", repair="libpython3.11")
def torchcodec_without_libpython(t, bad):
    """It is no version of FFmpeg that is missing."""
    torchcodec(t)
    ffmpeg(t, 5)
    for release in (4, 5, 6, 7):
        t.lib("%s/torchcodec/libtorchcodec_custom_ops%d.so" % (t.site, release),
              needed=["libtorchcodec_core%d.so" % release, "libpython3.11.so.1.0"])
    if not bad:
        t.lib(SYSTEM + "/libpython3.11.so.1.0")


@case("library-missing", "lib-missing", "libtorch_cuda.so", repair="torch", evidence="libtorchaudio")
def torchaudio_for_another_torch(t, bad):
    """Its own helper opens its library by path, and does not catch what goes wrong."""
    t.python().torch("2.8.0", needed=["libtorch.so"], rpath="$ORIGIN/lib")
    t.lib(t.site + "/torch/lib/libtorch.so", needed=[] if bad else ["libtorch_cuda.so"],
          rpath="$ORIGIN")
    if not bad:
        t.lib(t.site + "/torch/lib/libtorch_cuda.so")
    for folder in ("torchaudio", "torchaudio/lib"):
        t.put("%s/%s/__init__.py" % (t.site, folder), "")
    t.lib(t.site + "/torchaudio/lib/libtorchaudio.so", needed=["libtorch.so", "libtorch_cuda.so"])
    t.lib(t.site + "/torchaudio/lib/_torchaudio.so", soname=None, needed=["libtorchaudio.so"])
    t.dist("torchaudio", "2.8.0", ["torchaudio/lib/libtorchaudio.so"])


@case("library-missing", "lib-missing", "libtorch_cuda.so", repair="torch", evidence="torchvision")
def torchvision_for_another_torch(t, bad, version="0.20.1", extension="_C"):
    """Its extension may fail to load; the import then lacks the operators that it registers."""
    t.python().torch("2.8.0", needed=["libtorch.so"], rpath="$ORIGIN/lib")
    t.lib(t.site + "/torch/lib/libtorch.so", needed=[] if bad else ["libtorch_cuda.so"],
          rpath="$ORIGIN")
    if not bad:
        t.lib(t.site + "/torch/lib/libtorch_cuda.so")
    t.put(t.site + "/torchvision/__init__.py", "")
    name = "torchvision/%s.so" % extension
    t.lib(t.site + "/" + name, soname=None, needed=["libtorch.so", "libtorch_cuda.so"])
    t.dist("torchvision", version, [name])


@case("library-missing", "lib-missing", "libtorch_cuda.so", repair="torch", evidence="torchvision")
def torchvision_of_the_stable_interface(t, bad):
    torchvision_for_another_torch(t, bad, "0.29.0", "_C_stable")


ENTRIES = {
    "entries-of-pyannote": (pyannote, {
        "pyannote.audio": (None, "ok"), "torchaudio": ("pyannote.audio", "ok"),
        "torch": ("pyannote.audio", "ok"), "torchcodec": ("pyannote.audio", "broken")}),
}
