/* The screens of nvidia-smi, rocm-smi, amd-smi, rocminfo, xpu-smi and clinfo.
 *
 * A screen begins with a line that has the literal of a head, and its rows are looked at one by
 * one, whole or wrapped, with their blanks or without, until too many lines in a row are none of
 * it. What a row says is an expression whose groups are the fields of a fact; which GPU it is about
 * stands in the row or in one before. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "log/internal.h"

/* Sources of the formats: NVIDIA's nvidia-smi 375 to 617, ROCm/rocm_smi_lib python_smi_tools,
 * ROCm/amdsmi amdsmi_cli, ROCm/rocminfo rocminfo.cc, intel/xpumanager, Oblomov/clinfo. */
const struct log_screen_head screen_heads[] = {
    {"NVIDIA-SMI ", SCREEN_SMI},
    {"Persistence-M", SCREEN_SMI},
    {"Volatile Uncorr. ECC", SCREEN_SMI},
    {"MIG M. |", SCREEN_SMI},
    {"(UUID: GPU-", SCREEN_SMI_LIST},
    {"(UUID: MIG-", SCREEN_SMI_LIST},
    {"NVSMI LOG", SCREEN_SMI_QUERY},
    {"Attached GPUs", SCREEN_SMI_QUERY},
    {"FB Memory Usage", SCREEN_SMI_QUERY},
    {"--query-gpu=", SCREEN_SMI_CSV},
    {"--query-compute-apps=", SCREEN_SMI_CSV},
    {", driver_version", SCREEN_SMI_CSV},
    {"memory.total [", SCREEN_SMI_CSV},
    {"memory.used [", SCREEN_SMI_CSV},
    {"compute_cap", SCREEN_SMI_CSV},
    {"ROCm System Management", SCREEN_ROCM_SMI},
    {": Card series:", SCREEN_ROCM_SMI},
    {": VRAM Total", SCREEN_ROCM_SMI},
    {": Device Name:", SCREEN_ROCM_SMI},
    {"AMD-SMI ", SCREEN_AMD_SMI},
    {"AMDSMI Tool:", SCREEN_AMD_SMI},
    {"MARKET_NAME:", SCREEN_AMD_SMI},
    {"HSA Agents", SCREEN_ROCMINFO},
    {"ROCk module", SCREEN_ROCMINFO},
    {"Marketing Name:", SCREEN_ROCMINFO},
    {"Device Name: Intel(R)", SCREEN_XPU_SMI},
    {"Number of platforms ", SCREEN_CLINFO},
    {"Board Name (AMD)", SCREEN_CLINFO},
};
const size_t screen_heads_count = sizeof screen_heads / sizeof *screen_heads;

enum {
    ROWS_MAX = 3000,  // of one screen
    FOREIGN_MAX = 12, // lines in a row that are none of it: other processes, a wrapped table
    PAIRS_MAX = 2 * LOG_GROUPS_MAX,
};

/* ------------------------------------------------------------------ rows */

/* A row of a screen. A `section` is the heading that it must stand below. Groups: `used_b`,
 * `total_b` are bytes and become memory_used, memory_total; `device` is a PCI device id. */
static const struct screen_row {
    enum log_screen screen;
    const char *kind;   // "": the row only tells the index, or the agent's name
    const char *vendor; // or NULL
    const char *section;
    const char *text;
} rows[] = {
    /* "| NVIDIA-SMI 610.43.02  KMD Version: 610.43.02  CUDA UMD Version: 13.3 |", "Driver Version"
     * before 600; wrapped, the CUDA version is alone in its line */
    {SCREEN_SMI, "driver", "nvidia", NULL,
     "KMD Version:\\s*(?P<driver>\\d{3}(?:\\.\\d+)+)(?:\\s+CUDA (?:UMD )?Version:\\s*"
     "(?P<cuda>\\d+\\.\\d+))?"},
    {SCREEN_SMI, "driver", "nvidia", NULL,
     "^(?!.*(?:Driver|KMD) Version).{0,20}CUDA (?:UMD )?Version:\\s*(?P<cuda>\\d+\\.\\d+)"},
    {SCREEN_SMI, "driver", "nvidia", NULL, // before CUDA's version was shown
     "NVIDIA-SMI\\s+(?P<driver>\\d{3}\\.\\d+(?:\\.\\d+)?)(?!.*Version:)"},
    {SCREEN_SMI, "gpu", "nvidia", NULL,
     "(?:^|\\|)\\s*(?P<index>\\d{1,3})\\s+(?P<gpu>(?!N/A)[A-Z][\\w .()/-]*?)\\s+"
     "(?:On|Off|N/A|WDDM|TCC|MCDM|ERR!)\\s*(?:\\||$)"},
    {SCREEN_SMI, "gpu-memory", "nvidia", NULL,
     "(?P<memory_used>\\d+MiB)\\s*/\\s*(?P<memory_total>\\d+MiB)"
     "(?:\\s*\\|\\s*(?:(?P<utilisation>\\d+%)|N/A)(?:\\s+(?P<compute_mode>Default|Prohibited|"
     "E\\. ?Process|E\\. ?Thread))?)?"},
    {SCREEN_SMI, "mig-mode", "nvidia", NULL,
     "\\|[^|\\w]*\\|\\s*(?P<mode>Enabled|Disabled)\\*?\\s*\\|?\\s*$"},
    {SCREEN_SMI, "gpu-process", "nvidia", NULL,
     "(?:^|\\|)\\s*(?P<index>\\d{1,3})\\s+(?:(?:N/A|\\d+)\\s+(?:N/A|\\d+)\\s+)?(?P<pid>\\d+)\\s+"
     "(?P<type>C\\+G|M\\+C|C|G)\\s+(?P<process>\\S.*?)\\s+(?P<memory>\\d+MiB|N/A)\\s*\\|?\\s*$"},
    {SCREEN_SMI, "gpu-no-processes", "nvidia", NULL, "No running processes found"},

    {SCREEN_SMI_LIST, "gpu", "nvidia", NULL,
     "GPU (?P<index>\\d{1,3}): (?P<gpu>[^()]{2,80}?(?:\\([^()]{1,20}\\))?) \\(UUID: GPU-"},
    {SCREEN_SMI_LIST, "mig-device", "nvidia", NULL,
     "MIG (?P<profile>\\d+(?:c\\.\\d+)?g\\.\\d+gb\\S*)\\s+Device\\s+(?P<device_number>\\d+): "
     "\\(UUID: MIG-"},

    {SCREEN_SMI_QUERY, "driver", "nvidia", NULL, "^CUDA Version\\s*:\\s*(?P<cuda>\\d+\\.\\d+)"},
    {SCREEN_SMI_QUERY, "gpu", "nvidia", NULL, "^Product Name\\s*:\\s*(?P<gpu>\\S.*)"},
    {SCREEN_SMI_QUERY, "gpu-memory", "nvidia", "FB Memory Usage",
     "^(?:Total\\s*:\\s*(?P<memory_total>\\d+ MiB)|Used\\s*:\\s*(?P<memory_used>\\d+ MiB))"},
    {SCREEN_SMI_QUERY, "mig-mode", "nvidia", "MIG Mode",
     "^Current\\s*:\\s*(?P<mode>Enabled|Disabled)"},
    {SCREEN_SMI_QUERY, "gpu-process", "nvidia", NULL, "^Process ID\\s*:\\s*(?P<pid>\\d+)"},
    {SCREEN_SMI_QUERY, "compute-mode", "nvidia", NULL,
     "^Compute Mode\\s*:\\s*(?P<compute_mode>\\w+)"},

    /* "0  45.0c  30.0W  800Mhz  96Mhz  0%  auto  220.0W  1%  0%", and since ROCm 6.0 with the id */
    {SCREEN_ROCM_SMI, "gpu-memory", "amd", NULL,
     "^(?P<index>\\d{1,3})\\s+[\\d.]+\\S{0,3}c\\s.*\\s(?P<used_percent>\\d+%)\\s+\\d+%\\s*$"},
    {SCREEN_ROCM_SMI, "gpu-memory", "amd", NULL,
     "^(?P<index>\\d{1,3})\\s+\\d+\\s+0x[0-9a-f]{4},.*\\s(?P<used_percent>\\d+%)\\s+\\d+%\\s*$"},
    {SCREEN_ROCM_SMI, "gpu-device", "amd", NULL,
     "^(?P<index>\\d{1,3})\\s+\\d+\\s+0x(?P<device>[0-9a-f]{4}),"},
    {SCREEN_ROCM_SMI, "gpu-device", "amd", NULL,
     "GPU\\[(?P<index>\\d{1,3})\\]\\s*: (?:GPU|Device) ID:\\s*0x(?P<device>[0-9a-f]{4})"},
    {SCREEN_ROCM_SMI, "gpu", "amd", NULL,
     "GPU\\[(?P<index>\\d{1,3})\\]\\s*: (?:Card series|Device Name):\\s*"
     "(?P<gpu>(?!0x|N/A)\\S.*)"},
    {SCREEN_ROCM_SMI, "gfx", "amd", NULL,
     "GPU\\[(?P<index>\\d{1,3})\\]\\s*: GFX Version:\\s*(?P<arch>gfx\\w+)"},
    {SCREEN_ROCM_SMI, "gpu-memory", "amd", NULL,
     "GPU\\[(?P<index>\\d{1,3})\\]\\s*: VRAM Total (?:Used Memory \\(B\\):\\s*(?P<used_b>\\d+)|"
     "Memory \\(B\\):\\s*(?P<total_b>\\d+))"},

    {SCREEN_AMD_SMI, "gpu", "amd", NULL,
     "(?:^|\\|)\\s*[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\\.[0-9a-f]\\s+(?:\\.\\.\\.)?(?P<gpu>[^|]*"
     "\\w)\\s*\\|"},
    {SCREEN_AMD_SMI, "gpu-memory", "amd", NULL,
     "(?:^|\\|)\\s*(?P<index>\\d{1,3})\\s.*?\\s(?P<memory_used>\\d+)/(?P<memory_total>\\d+ "
     "MB)\\s*\\|?\\s*$"},
    {SCREEN_AMD_SMI, "", "amd", NULL, "^GPU: (?P<index>\\d{1,3})\\s*$"},
    {SCREEN_AMD_SMI, "gpu", "amd", NULL, "^MARKET_NAME:\\s*(?P<gpu>(?!N/A)\\S.*)"},
    {SCREEN_AMD_SMI, "gfx", "amd", NULL, "^TARGET_GRAPHICS_VERSION:\\s*(?P<arch>gfx\\w+)"},

    {SCREEN_ROCMINFO, "", NULL, NULL, "^Name:\\s+(?P<agent>\\S.*)"},
    {SCREEN_ROCMINFO, "gpu", NULL, NULL,
     "^Marketing Name:\\s+(?P<gpu>(?!.*(?:Ryzen|EPYC|Processor|Threadripper|Xeon|Core\\(TM\\)))"
     "\\S.*)"},
    {SCREEN_ROCMINFO, "hsa-agent", NULL, NULL, "^Device Type:\\s+(?P<type>CPU|GPU)"},

    {SCREEN_XPU_SMI, "intel-gpu", "intel", NULL, "Device Name:\\s*(?P<gpu>Intel\\(R\\)[^|]*\\w)"},

    {SCREEN_CLINFO, "opencl-platforms", NULL, NULL, "^Number of platforms\\s+(?P<count>\\d+)"},
    {SCREEN_CLINFO, "gpu", "nvidia", NULL,
     "^Device Name\\s+(?P<gpu>(?:NVIDIA |GeForce |Quadro |Tesla )\\S.*)"},
    {SCREEN_CLINFO, "gfx", "amd", NULL, "^Device Name\\s+(?P<arch>gfx[0-9a-f]+)"},
    {SCREEN_CLINFO, "gpu", "amd", NULL, "^(?:Device )?Board Name \\(AMD\\)\\s+(?P<gpu>\\S.*)"},
    {SCREEN_CLINFO, "intel-gpu", "intel", NULL,
     "^Device Name\\s+(?P<gpu>Intel\\(R\\) .*(?:Graphics|Arc|Iris).*)"},
};
enum { ROWS = sizeof rows / sizeof *rows };

size_t screen_rows_count(void)
{
    return ROWS;
}

void screen_rows_prepare(struct log_rules *r)
{
    r->screen_rows = arena_array(r->arena, ROWS, sizeof *r->screen_rows);
    for (size_t i = 0; i < ROWS; i++) {
        r->screen_rows[i].text = rows[i].text;
    }
}

/* ------------------------------------------------------------------ one fact */

struct building {
    struct log_rules *rules;
    struct log_screen_state *state;
    struct log_field fields[SCREEN_FIELDS_MAX];
    size_t n;
    char values[SCREEN_FIELDS_MAX][SCREEN_VALUE_MAX + 1];
};

static void copy_value(char *to, struct str from)
{
    from = str_trim(from);
    size_t n = from.n < SCREEN_VALUE_MAX ? from.n : SCREEN_VALUE_MAX;
    while (n < from.n && n && ((unsigned char)from.s[n] & 0xc0) == 0x80) {
        n--; // not through a character
    }
    memcpy(to, from.s, n);
    to[n] = '\0';
}

static void building_add(struct building *b, const char *name, struct str value)
{
    if (b->n < SCREEN_FIELDS_MAX && value.n) {
        copy_value(b->values[b->n], value);
        b->fields[b->n] =
            (struct log_field){rules_intern(b->rules, name, strlen(name)), b->values[b->n]};
        b->n++;
    }
}

static const char *field_value(const struct building *b, const char *name)
{
    for (size_t i = 0; i < b->n; i++) {
        if (strcmp(b->fields[i].name, name) == 0) {
            return b->fields[i].value;
        }
    }
    return NULL;
}

static void building_add_bytes(struct building *b, const char *name, struct str value)
{
    uint64_t bytes;
    char text[32];
    if (str_u64(value, &bytes)) {
        (void)snprintf(text, sizeof text, "%llu MiB", (unsigned long long)(bytes >> 20)); // fits
        building_add(b, name, str_of(text));
    }
}

/* One group of a row: a field, or something to remember. */
static void take_group(struct building *b, const char *name, struct str value)
{
    struct log_screen_state *s = b->state;
    if (strcmp(name, "used_b") == 0) {
        building_add_bytes(b, "memory_used", value);
    } else if (strcmp(name, "total_b") == 0) {
        building_add_bytes(b, "memory_total", value);
    } else if (strcmp(name, "agent") == 0) {
        copy_value(s->name, value);
    } else if (strcmp(name, "index") == 0) {
        (void)snprintf(s->index, sizeof s->index, "%.*s", (int)value.n, value.s); // 3 digits
    } else {
        building_add(b, name, value);
    }
}

static void take_groups(struct building *b, const struct log_regex *x, const char *text,
                        const size_t *at, int n_groups)
{
    for (int g = 1; g < n_groups; g++) {
        if (x->groups[g] && at[2 * g] != PCRE2_UNSET && at[2 * g] < at[2 * g + 1]) {
            take_group(b, x->groups[g], (struct str){text + at[2 * g], at[2 * g + 1] - at[2 * g]});
        }
    }
}

/* The agents of rocminfo: its name is the target, if it is a GPU. */
static void add_agent(struct building *b, bool *ret_is_gpu)
{
    const char *name = b->state->name;
    *ret_is_gpu = starts_with(name, "gfx");
    if (*ret_is_gpu) {
        building_add(b, "vendor", STR("amd"));
        building_add(b, "arch", str_of(name));
    } else if (*name) {
        building_add(b, "agent", str_of(name));
    }
}

static const char *interned(struct log_rules *r, const char *text)
{
    return rules_intern(r, text, strlen(text));
}

/* The target behind a PCI id, as a fact of its own. */
static void building_take_device(struct building *b, screen_take take, void *arg)
{
    struct log_target target;
    const char *device = field_value(b, "device");
    if (device && gpu_by_pci(b->rules, device, true, &target)) {
        building_add(b, "arch", str_of(target.arch));
        take(arg, interned(b->rules, "gfx"), b->fields, b->n);
    }
}

static void building_finish(struct building *b, const struct screen_row *row, screen_take take,
                            void *arg)
{
    bool is_gpu = true;
    if (row->vendor) {
        building_add(b, "vendor", str_of(row->vendor));
    }
    if (row->screen == SCREEN_ROCMINFO) {
        add_agent(b, &is_gpu);
    } else if (*b->state->index) {
        building_add(b, "index", str_of(b->state->index));
    }
    if (strcmp(row->kind, "gpu-device") == 0) {
        building_take_device(b, take, arg);
    } else if (*row->kind && (is_gpu || strcmp(row->kind, "gpu") != 0)) {
        take(arg, interned(b->rules, row->kind), b->fields, b->n);
    }
}

/* ------------------------------------------------------------------ tables of a query */

/* Columns of --query-gpu and --query-compute-apps that say something. */
static const char *column_field(struct str name)
{
    static const struct {
        const char *name, *field;
    } known[] = {
        {"name", "gpu"},
        {"gpu_name", "gpu"},
        {"index", "index"},
        {"driver_version", "driver"},
        {"compute_cap", "arch"},
        {"memory.total", "memory_total"},
        {"memory.used", "memory_used"},
        {"memory.free", "memory_free"},
        {"mig.mode.current", "mode"},
        {"compute_mode", "compute_mode"},
        {"pid", "pid"},
        {"process_name", "process"},
        {"used_memory", "memory"},
        {"used_gpu_memory", "memory"},
    };
    struct str word = str_trim(name);
    word.n = str_find_char(word, ' '); // before the unit
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (str_is(word, known[i].name)) {
            return known[i].field;
        }
    }
    return NULL;
}

static bool is_column(struct str name)
{
    name = str_trim(name);
    for (size_t i = 0; i < name.n; i++) {
        char c = name.s[i];
        if (!(c >= 'a' && c <= 'z') && c != '_' && c != '.' && c != ' ' && c != '[' && c != ']' &&
            c != '%' && !(c == 'M' || c == 'B' || c == 'W' || c == 'H' || c == 'z')) {
            return false;
        }
    }
    return name.n > 0;
}

/* Takes the names of columns out of a command or a table's head; false if this is neither. */
static bool take_columns(struct log_screen_state *s, struct str line)
{
    static const char *const options[] = {"--query-gpu=", "--query-compute-apps="};
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        size_t at = str_find(line, options[i]);
        if (at < line.n) {
            line = (struct str){line.s + at + strlen(options[i]), line.n - at - strlen(options[i])};
            line.n = str_find_char(line, ' ');
        }
    }
    const char *columns[SCREEN_COLUMNS_MAX];
    unsigned n = 0, known = 0;
    for (struct str rest = line; rest.s && n < SCREEN_COLUMNS_MAX;) {
        struct str name = str_cut(&rest, ',');
        if (!is_column(name)) {
            return false;
        }
        columns[n] = column_field(name);
        known += columns[n++] != NULL;
    }
    if (known) {
        memcpy(s->columns, columns, sizeof columns);
        s->n_columns = n;
    }
    return known > 0;
}

/* What a row of a query yields. */
static const struct query_part {
    const char *kind, *needs, *fields[5];
} query_parts[] = {
    {"gpu", "gpu", {"gpu", "index"}},
    {"driver", "driver", {"driver"}},
    {"capability", "arch", {"arch", "gpu", "index"}},
    {"gpu-memory", "memory_total", {"memory_total", "memory_used", "memory_free", "index"}},
    {"gpu-memory", "memory_used", {"memory_used", "memory_free", "index"}},
    {"mig-mode", "mode", {"mode", "index"}},
    {"compute-mode", "compute_mode", {"compute_mode", "index"}},
    {"gpu-process", "process", {"process", "pid", "memory"}},
};

/* Fields of the row go into the facts that a table of nvidia-smi yields. */
static void split_row(struct building *all, screen_take take, void *arg)
{
    bool total = field_value(all, "memory_total") != NULL;
    for (size_t i = 0; i < sizeof query_parts / sizeof *query_parts; i++) {
        struct building b = {.rules = all->rules, .state = all->state};
        for (size_t k = 0; k < 5 && query_parts[i].fields[k]; k++) {
            const char *value = field_value(all, query_parts[i].fields[k]);
            building_add(&b, query_parts[i].fields[k], str_of(value ? value : ""));
        }
        bool again = total && strcmp(query_parts[i].needs, "memory_used") == 0;
        if (field_value(&b, query_parts[i].needs) && !again) {
            building_add(&b, "vendor", STR("nvidia"));
            take(arg, interned(b.rules, query_parts[i].kind), b.fields, b.n);
        }
    }
}

static bool csv_line(struct building *b, struct str line, screen_take take, void *arg)
{
    struct log_screen_state *s = b->state;
    if (take_columns(s, line)) {
        return true;
    }
    unsigned n = 0, digits = 0;
    for (struct str rest = line; s->n_columns && rest.s; n++) {
        struct str value = str_trim(str_cut(&rest, ','));
        if (n < s->n_columns && s->columns[n] && value.n && value.s[0] != '[') {
            building_add(b, s->columns[n], value);
            digits += isdigit((unsigned char)value.s[value.n - 1]) || value.s[value.n - 1] == 'B';
        }
    }
    if (!n || n != s->n_columns || (!digits && n < 2)) {
        return false;
    }
    split_row(b, take, arg);
    return true;
}

/* ------------------------------------------------------------------ lines */

void screen_begin(struct log_screen_state *s, enum log_screen screen)
{
    if (s->screen != screen) {
        *s = (struct log_screen_state){.screen = screen};
    }
    s->rows = s->foreign = 0;
}

/* Whether a line without facts may stand between the rows. */
static bool is_frame(const struct log_screen_state *s, struct str line)
{
    bool listing = s->screen != SCREEN_SMI && s->screen != SCREEN_SMI_CSV;
    return memchr("|+-=*", line.s[0], 5) || line.s[line.n - 1] == '|' ||
           (listing && str_find_char(line, ':') < line.n) || str_starts(line, "GPU");
}

/* "FB Memory Usage" above its rows. */
static void take_heading(struct log_screen_state *s, struct str line)
{
    if (s->screen == SCREEN_SMI_QUERY && str_find_char(line, ':') >= line.n) {
        copy_value(s->section, line);
    }
}

static bool rows_line(struct log_rules *r, struct log_screen_state *s, struct str line,
                      screen_take take, void *arg)
{
    bool found = false;
    const size_t *at;
    for (size_t i = 0; i < ROWS; i++) {
        const struct screen_row *row = &rows[i];
        if (row->screen != s->screen || (row->section && strcmp(row->section, s->section) != 0)) {
            continue;
        }
        struct log_regex *x = &r->screen_rows[i];
        int groups = regex_search(r, x, line.s, line.n, 0, &at);
        if (groups > 0) {
            struct building b = {.rules = r, .state = s};
            take_groups(&b, x, line.s, at, groups);
            building_finish(&b, row, take, arg);
            found = true;
        }
    }
    return found;
}

void screen_line(struct log_rules *r, struct log_screen_state *s, struct str line, screen_take take,
                 void *arg)
{
    line = str_trim(line);
    if (s->screen == SCREEN_NONE || !line.n) {
        return;
    }
    struct building b = {.rules = r, .state = s};
    bool found = s->screen == SCREEN_SMI_CSV ? csv_line(&b, line, take, arg)
                                             : rows_line(r, s, line, take, arg);
    take_heading(s, line);
    s->foreign = found || is_frame(s, line) ? 0 : s->foreign + 1;
    if (++s->rows >= ROWS_MAX || s->foreign >= FOREIGN_MAX) {
        s->screen = SCREEN_NONE;
    }
}

/* ------------------------------------------------------------------ what there is */

/* Whether a row's facts may have the field. */
static bool row_yields(const struct screen_row *row, const char *field)
{
    static const char *const all[] = {"vendor", "index", "arch", "memory_used", "memory_total"};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (strcmp(all[i], field) == 0) {
            return true;
        }
    }
    return regex_names(row->text, field);
}

static bool part_yields(const struct query_part *part, const char *field)
{
    for (size_t k = 0; k < 5 && part->fields[k]; k++) {
        if (strcmp(part->fields[k], field) == 0) {
            return true;
        }
    }
    return false;
}

bool screen_yields(const char *kind, const char *field)
{
    for (size_t i = 0; i < ROWS; i++) {
        if (strcmp(rows[i].kind, kind) == 0 && (!field || row_yields(&rows[i], field))) {
            return true;
        }
    }
    for (size_t i = 0; i < sizeof query_parts / sizeof *query_parts; i++) {
        if (strcmp(query_parts[i].kind, kind) == 0 &&
            (!field || part_yields(&query_parts[i], field))) {
            return true;
        }
    }
    return false;
}
