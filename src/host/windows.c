/*
 * A machine by the files of its Windows: the registry's hives, and what is installed where.
 *
 *   SYSTEM    the control set in use: display adapters below Enum\PCI with their drivers below
 *             Control\Class, Session Manager (SafeDllSearchMode, KnownDLLs), FileSystem
 *   SOFTWARE  Windows NT\CurrentVersion: the release; Python (windows_pythons.c)
 *   and the variables of all and of each user (windows_variables.c)
 *
 * Sources: Microsoft, "Device Setup Classes" (display: {4d36e968-...}), "Registry Trees and Keys
 * for Devices and Drivers", "Dynamic-link library search order" (SafeDllSearchMode, KnownDLLs),
 * "Maximum Path Length Limitation" (LongPathsEnabled); regstr.h (CONFIGFLAG_DISABLED). The registry
 * keeps devices that were removed, and says nowhere in a file which ones are there. Not read: the
 * hives' logs. While this Windows runs, it lets nobody open its hives: then nothing of them is
 * known.
 */
#include "host/internal.h"
#include "host/names.h"
#include "host/windows_look.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/snap.h"
#include "hive/live.h"
#include "winldr/path.h"

#define DISPLAY_CLASS "{4d36e968-e325-11ce-bfc1-08002be10318}"

enum { FLAG_DISABLED = 1, BUILD_OF_11 = 22000 };

/* ------------------------------------------------------------------ hives */

static bool number_value(struct windows_look *w, const struct hive *h, struct hive_key key,
                         const char *name, uint32_t *ret)
{
    struct hive_value v;
    struct gm_err err;
    return hive_value(h, w->l->arena, key, name, &v, &err) == 1 && hive_number(&v, ret);
}

/* A setting of SYSTEM that counts as `by_default` where it is not set: whether it is on. */
static struct host_fact setting_fact(struct windows_look *w, struct hive_key key, const char *name,
                                     bool by_default)
{
    struct arena *a = w->l->arena;
    struct hive_value v;
    struct gm_err err;
    uint32_t number = by_default;
    if (w->system.dirty) {
        return host_unknown(w->hive.where, "the hive " HOST_DIRTY_SHORT);
    }
    int rc = hive_value(&w->system, a, key, name, &v, &err);
    if (rc < 0) {
        return host_unknown(w->hive.where, arena_strdup(a, err.text));
    }
    if (rc > 0 && (!hive_number(&v, &number) || number > 1)) {
        return host_unknown(w->hive.where, arena_printf(a, "%s is neither 0 nor 1", name));
    }
    return number ? host_yes(w->hive.where, NULL)
                  : host_no(w->hive.where,
                            arena_printf(a, rc > 0 ? "%s is 0" : "%s is not set", name));
}

static void open_system(struct windows_look *w)
{
    struct hive_key select;
    uint32_t current = 0;
    w->hive = host_windows_open(w, "C:\\Windows\\System32\\config\\SYSTEM", &w->system);
    if (w->hive.state == HOST_YES) {
        bool stated = host_windows_key(&w->system, hive_root(&w->system), "Select", &select) &&
                      number_value(w, &w->system, select, "Current", &current) && current < 1000;
        char name[16];
        (void)snprintf(name, sizeof name, "ControlSet%03u", (unsigned)current % 1000);
        if (!stated || !host_windows_key(&w->system, hive_root(&w->system), name, &w->set)) {
            w->hive = host_unknown(w->hive.where, "it does not state which control set is in use");
        }
    }
    if (w->hive.state != HOST_YES) {
        w->system.bins = NULL;
    }
    w->l->host->windows.registry = w->hive;
    w->l->host->windows.is_dirty = w->hive.state == HOST_YES && w->system.dirty;
}

/* A fact of SYSTEM that could not be looked for. */
static struct host_fact unseen(const struct windows_look *w)
{
    return host_unknown(w->hive.where, w->hive.why);
}

/* ------------------------------------------------------------------ the release */

static void read_release(struct windows_look *w)
{
    struct arena *a = w->l->arena;
    struct host_windows *ret = &w->l->host->windows;
    struct hive h = {0};
    struct hive_key key;
    uint64_t build = 0;
    uint32_t revision = 0;
    struct host_fact file = host_windows_open(w, "C:\\Windows\\System32\\config\\SOFTWARE", &h);
    ret->name = ret->build = host_unknown(
        file.where, file.state == HOST_YES ? "it does not state the release" : file.why);
    host_windows_read_pythons(w, &h, "Python", NULL, file.where);
    host_windows_read_pythons(w, &h, "WOW6432Node\\Python", NULL, file.where);
    if (!host_windows_key(&h, hive_root(&h), "Microsoft\\Windows NT\\CurrentVersion", &key)) {
        return;
    }
    const char *number = host_windows_text(w, &h, key, "CurrentBuild");
    const char *product = host_windows_text(w, &h, key, "ProductName");
    const char *version = host_windows_text(w, &h, key, "DisplayVersion");
    if (number && str_u64(str_of(number), &build)) {
        bool revised = number_value(w, &h, key, "UBR", &revision);
        ret->build = host_amount(file.where, build);
        ret->build.value = revised ? arena_printf(a, "%s.%u", number, (unsigned)revision) : number;
    }
    if (product) {
        /* ProductName of Windows 11 still begins with "Windows 10". */
        bool renamed = build >= BUILD_OF_11 && starts_with(product, "Windows 10");
        product = renamed ? arena_printf(a, "Windows 11%s", product + 10) : product;
        ret->name =
            host_yes(file.where, version ? arena_printf(a, "%s %s", product, version) : product);
    }
}

/* ------------------------------------------------------------------ the loader's settings */

static void read_loader_settings(struct windows_look *w)
{
    struct host_windows *ret = &w->l->host->windows;
    struct hive_key key;
    struct gm_err err;
    hive_values_list values;
    if (host_windows_key(&w->system, w->set, "Control\\Session Manager", &key)) {
        ret->safe_search = setting_fact(w, key, "SafeDllSearchMode", true);
    }
    if (host_windows_key(&w->system, w->set, "Control\\Session Manager\\KnownDLLs", &key) &&
        hive_values(&w->system, w->l->arena, key, &values, &err) == 0) {
        for (size_t i = 0; i < values.n; i++) {
            const char *name = hive_text(w->l->arena, &values.items[i]);
            if (name && !starts_with(values.items[i].name, "DllDirectory")) {
                VEC_PUSH(w->l->arena, &ret->known_dlls, name);
            }
        }
    }
    if (host_windows_key(&w->system, w->set, "Control\\FileSystem", &key)) {
        ret->long_paths = setting_fact(w, key, "LongPathsEnabled", false);
    }
}

/* ------------------------------------------------------------------ display adapters */

/* "32.0.15.6614" -> "566.14": the last five digits of the version of NVIDIA's drivers for Windows.
 */
static const char *nvidia_version(struct arena *a, unsigned third, unsigned fourth)
{
    unsigned digits = third % 10 * 10000 + fourth % 10000;
    return arena_printf(a, "%u.%02u", digits / 100, digits % 100);
}

static const char *nvidia_version_of(struct arena *a, const char *text)
{
    struct str rest = str_of(text);
    uint64_t parts[4] = {0};
    for (size_t i = 0; i < 4; i++) {
        if (!rest.s || !str_u64(str_cut(&rest, '.'), &parts[i]) || parts[i] > 65535) {
            return NULL;
        }
    }
    return rest.s ? NULL : nvidia_version(a, (unsigned)parts[2], (unsigned)parts[3]);
}

/* The four digits behind "VEN_" in "VEN_10DE&DEV_2684&SUBSYS_...". */
static bool id_behind(const char *name, const char *tag, size_t digits, uint32_t *ret)
{
    for (; *name; name++) {
        struct str head = {name, strlen(tag)};
        if (strlen(name) >= head.n + digits && winldr_name_part_is(head, str_of(tag))) {
            return host_parse_hex((struct str){name + head.n, digits}, (unsigned)digits, ret);
        }
    }
    return false;
}

/* "@System32\drivers\pci.sys,#65536;PCI bus %1, device %2, function %3;(1,0,0)" -> "0000:01:00.0"
 */
static const char *address_of(struct arena *a, const char *location)
{
    const char *open = location ? strrchr(location, '(') : NULL;
    const char *close = open ? strchr(open, ')') : NULL;
    if (!close) {
        return NULL;
    }
    struct str rest = {open + 1, (size_t)(close - open) - 1};
    uint64_t parts[3];
    for (size_t i = 0; i < 3; i++) {
        if (!rest.s || !str_u64(str_trim(str_cut(&rest, ',')), &parts[i])) {
            return NULL;
        }
    }
    return !rest.s && parts[0] < 256 && parts[1] < 32 && parts[2] < 8
               ? arena_printf(a, "0000:%02x:%02x.%x", (unsigned)parts[0], (unsigned)parts[1],
                              (unsigned)parts[2])
               : NULL;
}

/* The driver of a device, by its value Driver ("{class}\0000"). */
static struct host_fact device_driver(struct windows_look *w, struct hive_key device,
                                      const char **ret_version)
{
    struct arena *a = w->l->arena;
    struct hive_key key;
    struct host_fact driver = host_windows_value(w, &w->system, device, "Driver", w->hive.where);
    *ret_version = NULL;
    if (driver.state != HOST_YES) {
        return driver;
    }
    if (!host_windows_key(&w->system, w->set, str_concat(a, "Control\\Class\\", driver.value, ""),
                          &key)) {
        return host_unknown(w->hive.where, "the key of its driver is not there");
    }
    const char *provider = host_windows_text(w, &w->system, key, "ProviderName");
    *ret_version = host_windows_text(w, &w->system, key, "DriverVersion");
    return host_yes(w->hive.where, provider ? provider : "a driver without a name");
}

static bool is_display(struct windows_look *w, struct hive_key device)
{
    const char *class_id = host_windows_text(w, &w->system, device, "ClassGUID");
    return class_id && winldr_name_is(class_id, DISPLAY_CLASS);
}

/* One device below Enum\PCI\ID. */
static void read_device(struct windows_look *w, const char *id, struct hive_key device)
{
    struct arena *a = w->l->arena;
    struct host *h = w->l->host;
    uint32_t subsystem = 0, flags = 0;
    struct host_gpu g = {.kind = "windows", .revision = UINT32_MAX};
    if (!is_display(w, device) || !id_behind(id, "VEN_", 4, &g.vendor_id) ||
        !id_behind(id, "DEV_", 4, &g.device_id)) {
        return;
    }
    if (id_behind(id, "SUBSYS_", 8, &subsystem)) {
        g.subsystem_device_id = subsystem >> 16, g.subsystem_vendor_id = subsystem & 0xffff;
    }
    (void)id_behind(id, "REV_", 2, &g.revision);
    const char *version;
    g.driver = device_driver(w, device, &version);
    g.bdf = address_of(a, host_windows_text(w, &w->system, device, "LocationInformation"));
    (void)number_value(w, &w->system, device, "ConfigFlags", &flags);
    g.switched_off = (flags & FLAG_DISABLED) != 0;
    g.numa_node = host_unknown(NULL, "the registry does not state it");
    host_describe_pci(w->l, &g);
    if (g.vendor == HOST_OTHER) {
        return;
    }
    g.driver_version = g.vendor == HOST_NVIDIA && version && g.driver.state == HOST_YES &&
                               str_find(str_of(g.driver.value), "NVIDIA") < strlen(g.driver.value)
                           ? nvidia_version_of(a, version)
                           : version;
    VEC_PUSH(a, &h->gpus, g);
}

static void read_adapters(struct windows_look *w)
{
    struct arena *a = w->l->arena;
    struct host *h = w->l->host;
    struct hive_key pci;
    struct gm_err err;
    hive_subkeys_list ids, instances;
    h->pci = unseen(w);
    if (!host_windows_key(&w->system, w->set, "Enum\\PCI", &pci)) {
        h->pci =
            w->system.bins ? host_unknown(w->hive.where, "it has no list of PCI devices") : h->pci;
        return;
    }
    if (hive_subkeys(&w->system, a, pci, &ids, &err) < 0) {
        h->pci = host_unknown(w->hive.where, arena_strdup(a, err.text));
        return;
    }
    h->pci = w->system.dirty ? host_unknown(w->hive.where, "it " HOST_DIRTY_SHORT)
                             : host_yes(w->hive.where, NULL);
    for (size_t i = 0; i < ids.n; i++) {
        if (hive_subkeys(&w->system, a, ids.items[i].key, &instances, &err) < 0) {
            host_windows_note(w, arena_printf(a, "%s: %s", w->hive.where, err.text));
            continue;
        }
        for (size_t k = 0; k < instances.n; k++) {
            read_device(w, ids.items[i].name, instances.items[k].key);
        }
    }
}

/* ------------------------------------------------------------------ what is installed */

static bool is_there(struct windows_look *w, const char *path, enum winldr_entry_kind kind)
{
    return winldr_files_get(&w->files, path)->kind == kind;
}

/* The file of System32 as a fact: its version, "6.2.41512.0", or of NVIDIA's "566.14". */
static struct host_fact system_file(struct windows_look *w, const char *name, bool is_nvidia)
{
    struct arena *a = w->l->arena;
    const char *path = winldr_path_join(a, "C:\\Windows\\System32", name);
    const struct winldr_entry *e = winldr_files_get(&w->files, path);
    if (e->kind != WINLDR_ENTRY_FILE) {
        return e->kind == WINLDR_ENTRY_MISSING ? host_no(path, "it is not there")
                                               : host_unknown(path, e->detail);
    }
    struct pe_version v = pe_version_read(&e->file->image);
    const char *version =
        !v.found    ? NULL
        : is_nvidia ? nvidia_version(a, v.file[2], v.file[3])
                    : arena_printf(a, "%u.%u.%u.%u", v.file[0], v.file[1], v.file[2], v.file[3]);
    return host_yes(path, version);
}

static void add_toolkit(struct windows_look *w, const char *kind, const char *version,
                        const char *path)
{
    VEC_PUSH(w->l->arena, &w->l->host->windows.toolkits,
             (struct host_windows_toolkit){kind, version, path});
}

/* Each folder of `parent` that is named by a version, with a letter before it or not, and has
 * `inside`. */
static void find_toolkits(struct windows_look *w, const char *kind, const char *parent,
                          const char *inside)
{
    struct arena *a = w->l->arena;
    struct winldr_names names = winldr_files_list(&w->files, parent);
    for (size_t i = 0; i < names.n; i++) {
        const char *name = names.items[i], *version = name + (name[0] == 'v' || name[0] == 'V');
        const char *path = winldr_path_join(a, parent, name);
        if (str_is_digit(version[0]) &&
            is_there(w, winldr_path_join(a, path, inside), WINLDR_ENTRY_FOLDER)) {
            add_toolkit(w, kind, version, path);
        }
    }
}

static void read_installed(struct windows_look *w)
{
    static const char *const hip[] = {"amdhip64.dll", "amdhip64_6.dll", "amdhip64_7.dll"};
    struct host_windows *ret = &w->l->host->windows;
    ret->nvcuda = system_file(w, "nvcuda.dll", true);
    ret->runtime = system_file(w, "vcruntime140_1.dll", false);
    for (size_t i = 0; i < sizeof hip / sizeof *hip; i++) {
        struct host_fact file = system_file(w, hip[i], false);
        if (file.state == HOST_YES) {
            VEC_PUSH(w->l->arena, &ret->hip, file);
        }
    }
    find_toolkits(w, "CUDA toolkit", "C:\\Program Files\\NVIDIA GPU Computing Toolkit\\CUDA",
                  "bin");
    find_toolkits(w, "cuDNN", "C:\\Program Files\\NVIDIA\\CUDNN", "bin");
    find_toolkits(w, "HIP SDK", "C:\\Program Files\\AMD\\ROCm", "bin");
}

/* ------------------------------------------------------------------ all of it */

/* What this reader does not look for, so that nothing is taken for "no". */
static void leave_unknown(struct host *h)
{
    static const char why[] = "not read of Windows";
    struct host_fact x = host_unknown(NULL, why);
    struct host_cpu *c = &h->cpu;
    struct host_nvidia *n = &h->nvidia;
    struct host_windows *win = &h->windows;
    h->kernel = h->os = h->os_name = h->os_version = h->environment = x;
    h->os_like = h->os_platform = x;
    c->model = c->cores_online = c->cores_affinity = c->quota = c->cores = c->isa = c->vectors =
        c->memory_total = c->memory_limit = x;
    h->user.uid = h->user.dac_override = x;
    n->module = n->module_on_disk = n->flavour = n->uvm = n->switched_off = n->secure_boot =
        n->key_enrolled = n->build_log = n->headers = n->modify_nodes = n->major = n->uvm_major =
            n->modprobe = n->persistence = n->nvswitch = n->fabric_manager = n->fabric_installed =
                n->versions_match = x;
    h->amd.module = h->amd.kfd = x;
    h->amd.kfd_node = (struct host_node){.path = "/dev/kfd", .present = x, .usable = x};
    h->intel.i915 = h->intel.xe = x;
    h->wsl.dxg = h->wsl.driver = h->wsl.dxcore = x;
    h->wsl.is_wsl = host_no(NULL, "this is Windows");
    h->tegra.is_tegra = host_no(NULL, "this is Windows");
    h->tegra.release = h->tegra.jetpack = h->tegra.soc = x;
    h->container.inside = h->container.rootless = host_no(NULL, "this is Windows");
    h->container.device_cgroup = h->container.label = x;
    win->name = win->build = win->safe_search = win->long_paths = win->path = x;
}

bool host_collect_windows(struct host_look *l)
{
    struct windows_look w = {.l = l};
    struct host *h = l->host;
    winldr_files_open_root(&w.files, l->root, l->arena);
    bool found = is_there(&w, "C:\\Windows\\System32", WINLDR_ENTRY_FOLDER);
    if (found) {
        leave_unknown(h);
        h->windows.is_windows = host_yes("C:\\Windows", NULL);
        open_system(&w);
        read_release(&w);
        read_loader_settings(&w);
        host_windows_read_variables(&w);
        read_adapters(&w);
        read_installed(&w);
        h->os = host_yes("C:\\Windows", "windows");
        h->os_name = h->windows.name;
    }
    for (size_t i = 0; i < w.maps.n; i++) {
        (void)munmap((void *)(uintptr_t)w.maps.items[i].data, w.maps.items[i].size); // read only
    }
    winldr_files_close(&w.files);
    return found;
}
