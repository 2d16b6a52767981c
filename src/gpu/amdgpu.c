/*
 * AMDGPU code objects: an ELF image of machine 224 whose e_flags name the processor and the
 * features it was built for. llvm-project, llvm/docs/AMDGPUUsage.rst ("ELF Code Object", tables of
 * e_flags) and llvm/include/llvm/BinaryFormat/ELF.h (EF_AMDGPU_*).
 */
#include "gpu/internal.h"

#include <elf.h>

enum { OSABI_HSA = 64, ABI_V2 = 0, ABI_V3 = 1, ABI_V6 = 4 };

static const char *const processors[] = {
    // by EF_AMDGPU_MACH
    [0x20] = "gfx600",          [0x21] = "gfx601",          [0x22] = "gfx700",
    [0x23] = "gfx701",          [0x24] = "gfx702",          [0x25] = "gfx703",
    [0x26] = "gfx704",          [0x28] = "gfx801",          [0x29] = "gfx802",
    [0x2a] = "gfx803",          [0x2b] = "gfx810",          [0x2c] = "gfx900",
    [0x2d] = "gfx902",          [0x2e] = "gfx904",          [0x2f] = "gfx906",
    [0x30] = "gfx908",          [0x31] = "gfx909",          [0x32] = "gfx90c",
    [0x33] = "gfx1010",         [0x34] = "gfx1011",         [0x35] = "gfx1012",
    [0x36] = "gfx1030",         [0x37] = "gfx1031",         [0x38] = "gfx1032",
    [0x39] = "gfx1033",         [0x3a] = "gfx602",          [0x3b] = "gfx705",
    [0x3c] = "gfx805",          [0x3d] = "gfx1035",         [0x3e] = "gfx1034",
    [0x3f] = "gfx90a",          [0x40] = "gfx940",          [0x41] = "gfx1100",
    [0x42] = "gfx1013",         [0x43] = "gfx1150",         [0x44] = "gfx1103",
    [0x45] = "gfx1036",         [0x46] = "gfx1101",         [0x47] = "gfx1102",
    [0x48] = "gfx1200",         [0x49] = "gfx1250",         [0x4a] = "gfx1151",
    [0x4b] = "gfx941",          [0x4c] = "gfx942",          [0x4e] = "gfx1201",
    [0x4f] = "gfx950",          [0x50] = "gfx1310",         [0x51] = "gfx9-generic",
    [0x52] = "gfx10-1-generic", [0x53] = "gfx10-3-generic", [0x54] = "gfx11-generic",
    [0x55] = "gfx1152",         [0x57] = "gfx1154",         [0x58] = "gfx1153",
    [0x59] = "gfx12-generic",   [0x5a] = "gfx1251",         [0x5b] = "gfx12-5-generic",
    [0x5c] = "gfx1172",         [0x5d] = "gfx1170",         [0x5e] = "gfx1171",
    [0x5f] = "gfx9-4-generic",  [0x62] = "gfx11-7-generic", [0x63] = "gfx13-generic",
};

enum { PROCESSORS = sizeof processors / sizeof *processors };

const char *gpu_amdgpu_name(size_t index)
{
    for (size_t i = 0; i < PROCESSORS; i++) {
        if (processors[i] && index-- == 0) {
            return processors[i];
        }
    }
    return NULL;
}

/* From code object V4 on two bits a feature: not supported, any, off, on. V3 has one bit. */
static const char *feature(unsigned bits, const char *off, const char *on)
{
    return bits == 2 ? off : bits == 3 ? on : "";
}

static struct str target_text(struct gpu_builder *b, unsigned abi, uint32_t flags)
{
    const char *name = (flags & 0xff) < PROCESSORS ? processors[flags & 0xff] : NULL;
    if (!name) {
        b->code->incomplete = true;
        gpu_note(b, "code object for processor 0x%x, which is not known", flags & 0xff);
        return (struct str){"", 0};
    }
    const char *ecc = feature(flags >> 10 & 3, ":sramecc-", ":sramecc+");
    const char *xnack = feature(flags >> 8 & 3, ":xnack-", ":xnack+");
    if (abi == ABI_V3) {
        ecc = flags & 0x200 ? ":sramecc+" : "";
        xnack = flags & 0x100 ? ":xnack+" : "";
    }
    return str_of(arena_printf(b->arena, "%s%s%s", name, ecc, xnack));
}

bool gpu_amdgpu_target(struct gpu_builder *b, uint64_t offset, struct str *ret)
{
    const unsigned char *p = gpu_bytes(&b->file, offset, 64);
    if (!p || gpu_u32(p) != 0x464c457f || p[EI_CLASS] != ELFCLASS64 || p[EI_DATA] != ELFDATA2LSB ||
        gpu_u16(p + 18) != EM_AMDGPU || p[EI_OSABI] != OSABI_HSA) {
        return false;
    }
    unsigned abi = p[EI_ABIVERSION];
    if (abi == ABI_V2 || abi > ABI_V6) {
        b->code->incomplete = true;
        gpu_note(b, "code object of ABI version %u: its processor is not read", abi);
        return false;
    }
    *ret = target_text(b, abi, gpu_u32(p + 48));
    return ret->n != 0;
}
