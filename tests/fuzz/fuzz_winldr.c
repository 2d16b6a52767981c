/* The texts of a Windows tree that decide what its loader and Python's imports do: manifests of a
 * program and of assemblies, a package's manifest, pyvenv.cfg, conda's list, RECORD, and what
 * import scripts read. They are pieces of the input, cut at 0xff bytes. */
#include <assert.h>
#include <stdint.h>

#include "unit/pemake.h"
#include "winldr/package.h"
#include "winldr/python.h"
#include "winldr/tag.h"
#include "world.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define SITE  "/Python312/Lib/site-packages"
#define STORE "/Program Files/WindowsApps/PythonSoftwareFoundation.Python.3.12_3.12.1.0_x64__q"

static const char *const pieces[] = {
    "/Python312/python.exe.manifest",
    "/Python312/one.manifest",
    "/Python312/one/one.manifest",
    "/Python312/two.manifest",
    STORE "/AppxManifest.xml",
    "/app/pyvenv.cfg",
    "/Users/ann/.conda/environments.txt",
    SITE "/torch/version.py",
    SITE "/torch/_rocm_init.py",
    SITE "/rocm_sdk/_dist_info.py",
    SITE "/ctranslate2/__init__.py",
    SITE "/cupy/.data/_wheel.json",
    SITE "/cupy/_environment.py",
    SITE "/x-1.dist-info/RECORD",
    SITE "/_gpumend_hook.py",
};

static const char *const dlls[] = {
    "/Windows/System32/kernel32.dll",
    "/Windows/WinSxS/amd64_one_none_1.0.2.3_none_0/a.dll",
    "/Python312/python.exe",
    "/Python312/a.dll",
    "/Python312/one/a.dll",
    STORE "/python.exe",
    SITE "/torch/_C.cp312-win_amd64.pyd",
    SITE "/ctranslate2/ctranslate2.dll",
    SITE "/_rocm_sdk_core/bin/amdhip64_7.dll",
};

static void write_tree(void)
{
    static const char *const empty[] = {SITE "/torch/__init__.py", SITE "/cupy/__init__.py",
                                        SITE "/bitsandbytes/__init__.py"};
    struct arena a;
    arena_init(&a, 0, NULL, NULL);
    struct pemake spec = {.exports = {{"f", NULL}}};
    spec.imports[0] = (struct pemake_import){"a.dll", {"f"}, false};
    struct str bytes = pemake(&a, &spec);
    for (size_t i = 0; i < sizeof dlls / sizeof *dlls; i++) {
        world_write(dlls[i], bytes.s, bytes.n);
    }
    for (size_t i = 0; i < sizeof empty / sizeof *empty; i++) {
        world_write(empty[i], "", 0);
    }
    arena_release(&a);
}

/* Values lie within the text that they are from. */
static void see_tags(const uint8_t *data, size_t size)
{
    struct str text = {(const char *)data, size}, tag;
    while (winldr_tag_next(&text, "file", &tag)) {
        struct str value = winldr_tag_value(tag, "name");
        assert(!value.n || (value.s >= tag.s && value.s + value.n <= tag.s + tag.n));
        assert(text.n < size);
    }
}

static void look_at_pythons(struct winldr_files *files, const char *target)
{
    struct winldr_pythons all;
    winldr_find_pythons(files, target, &all);
    for (size_t i = 0; i < all.items.n; i++) {
        struct winldr_python *py = &all.items.items[i];
        py->path = "C:\\tools";
        (void)winldr_recorded_by(files, py, "ctranslate2.dll", true);
        for (const char *const *name = winldr_packages; *name; name++) {
            struct winldr_process *p = winldr_python_start(files, py);
            winldr_import_package(p, py, *name);
            for (size_t k = 0; k < p->loads.n; k++) {
                assert(p->loads.items[k].end <= p->requests.n);
            }
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bool is_ready;
    struct gm_err err;
    struct arena a;
    struct root root;
    struct winldr_files files;
    if (!is_ready) {
        write_tree();
        is_ready = true;
    }
    see_tags(data, size);
    world_write_pieces(pieces, sizeof pieces / sizeof *pieces, data, size);
    arena_init(&a, (size_t)512 << 20, NULL, NULL);
    if (root_open(&root, world_top(), &err) == 0) {
        winldr_files_open_root(&files, &root, &a);
        look_at_pythons(&files, NULL);
        look_at_pythons(&files, "C:\\app");
        winldr_files_close(&files);
        root_close(&root);
    }
    arena_release(&a);
    return 0;
}
