"""The crash that everyone knows: a program that brings it about, and what it then says."""

# With ctranslate2 4.5.0: the main cuDNN library in its wheel finds no sub-library.
PROGRAM = """import ctypes
import ctranslate2
shim = next(line.split(None, 5)[5].rstrip("\\n") for line in open("/proc/self/maps")
            if "/libcudnn-" in line and ".so.9.1.0" in line)
handle = ctypes.c_void_p()
status = ctypes.CDLL(shim).cudnnCreateConvolutionDescriptor(ctypes.byref(handle))
print("status", status, "handle", bool(handle.value), flush=True)
"""
SAYS = (r"Unable to load any of \{libcudnn_\w+\.so\.9\.1\.0, libcudnn_\w+\.so\.9\.1, "
        r"libcudnn_\w+\.so\.9, libcudnn_\w+\.so\}\s+"
        r"Invalid handle\. Cannot load symbol cudnnCreateConvolutionDescriptor")
