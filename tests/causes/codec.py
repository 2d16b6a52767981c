"""Cases of torchcodec, which opens one library of its own for each release of FFmpeg it supports.

FFmpeg comes from the system. The names of its libraries are those of the releases 4 to 8.
"""

from cases import case
from tree import SYSTEM

PARTS = ("avutil", "avcodec", "avformat", "avdevice", "avfilter", "swscale", "swresample")
MAJORS = {4: (56, 58, 58, 58, 7, 5, 3), 5: (57, 59, 59, 59, 8, 6, 4), 6: (58, 60, 60, 60, 9, 7, 4),
          7: (59, 61, 61, 61, 10, 8, 5), 8: (60, 62, 62, 62, 11, 9, 6)}
BUNDLED = "av.libs/libavutil-5809ad29.so.60.26.102"


def libraries(release):
    return ["lib%s.so.%d" % pair for pair in zip(PARTS, MAJORS[release])]


def ffmpeg(t, release, without=()):
    for name in libraries(release):
        if name not in without:
            t.lib(SYSTEM + "/" + name)


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


@case("library-missing", "lib-missing", "libavutil.so.60", severity="warning",
      repair="^apt-get install ffmpeg$", evidence="reading and writing audio and video files")
def torchcodec_for_images(t, bad):
    """Since 0.16 the import works without FFmpeg, and decodes images."""
    torchcodec(t, "0.17.0", (4, 5, 6, 7, 8), image=True)
    if not bad:
        ffmpeg(t, 8)


@case("library-missing", "lib-missing", "libavdevice.so.59", repair="^apt-get install ffmpeg$",
      evidence=r"libtorchcodec_core5\.so")
def ffmpeg_in_part(t, bad):
    """What counts is the release of FFmpeg that is there, not the newest that is tried."""
    torchcodec(t)
    ffmpeg(t, 5, without=["libavdevice.so.59"] if bad else [])


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
