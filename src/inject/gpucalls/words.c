/* The words for one failure: the error, the place, the Python frames, as text and as JSON. */
#include <fcntl.h>
#include <sys/syscall.h>

#include "inject/gpucalls/gpucall.h"
#include "inject/gpucalls/tell.h"

static const char *error_name(enum gpucall_api api, int code)
{
    for (uint32_t i = gpucall_errors_at[api]; i < gpucall_errors_at[api + 1]; i++) {
        if (gpucall_errors[i].code == code) {
            return gpucall_text + gpucall_errors[i].name;
        }
    }
    return NULL;
}

static const char *api_name(enum gpucall_api api)
{
    switch (api) {
    case GPUCALL_RUNTIME: return "cuda-runtime";
    case GPUCALL_HIP: return "hip";
    case GPUCALL_DRIVER:
    case GPUCALL_APIS: break;
    }
    return "cuda-driver";
}

static const char *object_path(const struct gpucall_object *o, char *buffer, size_t max)
{
    const char *name = o->map->l_name;
    if (name && *name) {
        return name;
    }
    long n = system_call(SYS_readlinkat, AT_FDCWD, (long)"/proc/self/exe", (long)buffer,
                         (long)(max - 1), 0, 0);
    buffer[n > 0 ? n : 0] = '\0';
    return n > 0 ? buffer : "the program";
}

static void copy_cut(char *ret, size_t max, const char *s)
{
    struct text t = {.at = ret, .max = max};
    gpucall_text_put(&t, s);
}

void gpucall_place_find(uintptr_t pc, struct place *ret)
{
    char buffer[PLACE_PATH];
    const struct gpucall_object *o = gpucall_object_of(pc - 1);
    *ret = (struct place){.offset = pc};
    if (!o) {
        return;
    }
    ret->offset = pc - o->map->l_addr;
    copy_cut(ret->object, sizeof ret->object, object_path(o, buffer, sizeof buffer));
    const char *symbol = gpucall_symbol(o, pc - 1);
    if (symbol) {
        copy_cut(ret->symbol, sizeof ret->symbol, symbol);
    } else {
        (void)gpucall_file_symbol(ret->object, ret->offset - 1, ret->symbol, sizeof ret->symbol);
    }
}

void gpucall_put_place(struct text *t, const struct place *p)
{
    gpucall_text_put_escaped(t, p->object);
    gpucall_text_put(t, *p->object ? "+" : "");
    gpucall_text_put_number(t, p->offset, 16);
    gpucall_text_put(t, *p->symbol ? " (" : "");
    gpucall_text_put_escaped(t, p->symbol);
    gpucall_text_put(t, *p->symbol ? ")" : "");
}

void gpucall_put_json_place(struct text *t, const struct place *p)
{
    gpucall_text_put(t, "{\"object\":");
    gpucall_put_string_or_null(t, p->object);
    gpucall_text_put(t, ",\"offset\":\"");
    gpucall_text_put_number(t, p->offset, 16);
    gpucall_text_put(t, "\",\"symbol\":");
    gpucall_put_string_or_null(t, p->symbol);
    gpucall_text_put(t, "}");
}

void gpucall_put_error(struct text *t, enum gpucall_api api, int code)
{
    const char *name = error_name(api, code);
    gpucall_put_signed(t, code);
    if (name) {
        gpucall_text_put(t, " (");
        gpucall_text_put(t, name);
        gpucall_text_put(t, ")");
    }
}

static void put_who(struct text *t, long pid)
{
    gpucall_text_put(t, "process ");
    gpucall_put_signed(t, pid);
    long tid = system_call(SYS_gettid, 0, 0, 0, 0, 0, 0);
    if (tid != pid) {
        gpucall_text_put(t, ", thread ");
        gpucall_put_signed(t, tid);
    }
}

/* "/opt/app/train.py:12 (step)" */
static void put_python(struct text *t, const struct gpucall_python_frame *frame)
{
    gpucall_text_put_escaped(t, frame->file);
    gpucall_text_put(t, ":");
    gpucall_put_signed(t, frame->line);
    gpucall_text_put(t, " (");
    gpucall_text_put_escaped(t, frame->function);
    gpucall_text_put(t, ")");
}

void gpucall_put_python_of(struct text *t, const struct record *r)
{
    if (r->python.line) {
        gpucall_text_put(t, ", called by ");
        put_python(t, &r->python);
    }
}

static void put_python_frames(struct text *t)
{
    struct gpucall_python python;
    struct gpucall_python_frame frame;
    bool more = gpucall_python_begin(&python);
    while (more && gpucall_python_next(&python, &frame)) {
        gpucall_text_put(t, "gpumend:   called by ");
        put_python(t, &frame);
        gpucall_text_put(t, "\n");
    }
}

void gpucall_put_json_python(struct text *t, const struct gpucall_python_frame *frame)
{
    gpucall_text_put(t, "{\"file\":");
    gpucall_put_string(t, frame->file);
    gpucall_text_put(t, ",\"line\":");
    gpucall_put_signed(t, frame->line);
    gpucall_text_put(t, ",\"function\":");
    gpucall_put_string(t, frame->function);
    gpucall_text_put(t, "}");
}

/* As members of an array. */
static void put_json_python_frames(struct text *t)
{
    struct gpucall_python python;
    struct gpucall_python_frame frame;
    bool more = gpucall_python_begin(&python);
    for (const char *comma = "";
         more && t->max - t->n > ROOM && gpucall_python_next(&python, &frame); comma = ",") {
        gpucall_text_put(t, comma);
        gpucall_put_json_python(t, &frame);
    }
}

void gpucall_put_failure(struct text *t, const struct failure *f)
{
    gpucall_text_put(t, f->first ? "gpumend: the first failing GPU call: "
                                 : "gpumend: failing GPU call: ");
    gpucall_text_put(t, f->record->call);
    gpucall_text_put(t, " = ");
    gpucall_put_error(t, f->record->api, f->record->result);
    if (!f->first) {
        gpucall_text_put(t, f->inner ? ", of " : "");
        gpucall_text_put(t, f->inner ? f->inner->name : "");
        gpucall_text_put(t, ", at ");
        gpucall_put_place(t, &f->record->place);
        gpucall_put_python_of(t, f->record);
        gpucall_text_put(t, "\n");
        return;
    }
    gpucall_text_put(t, ", in ");
    put_who(t, f->record->pid);
    gpucall_text_put(t, "\n");
    if (f->inner) {
        gpucall_text_put(t, "gpumend:   because of ");
        gpucall_text_put(t, f->inner->call);
        gpucall_text_put(t, " = ");
        gpucall_put_error(t, f->inner->api, f->inner->result);
        gpucall_text_put(t, "\n");
    }
    for (unsigned i = 0; i < f->trace->n; i++) {
        gpucall_text_put(t, "gpumend:   #");
        gpucall_text_put_number(t, i, 10);
        gpucall_text_put(t, " ");
        struct place place;
        gpucall_place_find(f->trace->pc[i], &place);
        gpucall_put_place(t, &place);
        gpucall_text_put(t, "\n");
    }
    put_python_frames(t);
}

void gpucall_put_json_error(struct text *t, enum gpucall_api api, const char *name, int code)
{
    gpucall_text_put(t, "\"api\":\"");
    gpucall_text_put(t, api_name(api));
    gpucall_text_put(t, "\",\"call\":");
    gpucall_put_string(t, name);
    gpucall_text_put(t, ",\"code\":");
    gpucall_put_signed(t, code);
    gpucall_text_put(t, ",\"error\":");
    gpucall_put_string_or_null(t, error_name(api, code));
}

void gpucall_put_json_start(struct text *t, const char *event, long pid)
{
    struct timespec now = {0, 0};
    (void)system_call(SYS_clock_gettime, 0 /* CLOCK_REALTIME */, (long)&now, 0, 0, 0, 0);
    gpucall_text_put(t, "{\"event\":\"");
    gpucall_text_put(t, event);
    gpucall_text_put(t, "\",\"pid\":");
    gpucall_put_signed(t, pid);
    gpucall_text_put(t, ",\"tid\":");
    gpucall_put_signed(t, system_call(SYS_gettid, 0, 0, 0, 0, 0, 0));
    gpucall_text_put(t, ",\"time_us\":");
    gpucall_text_put_number(t, (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000, 10);
}

void gpucall_put_json_failure(struct text *t, const struct failure *f)
{
    gpucall_put_json_start(t, "gpu-call-failed", f->record->pid);
    gpucall_text_put(t, f->first ? ",\"first\":true," : ",\"first\":false,");
    gpucall_put_json_error(t, f->record->api, f->record->name, f->record->result);
    gpucall_text_put(t, ",\"arguments\":{");
    gpucall_put_arguments(t, f->call, true);
    gpucall_text_put(t, "},\"because\":");
    if (f->inner) {
        gpucall_text_put(t, "{");
        gpucall_put_json_error(t, f->inner->api, f->inner->name, f->inner->result);
        gpucall_text_put(t, ",\"says\":");
        gpucall_put_string(t, f->inner->call);
        gpucall_text_put(t, "}");
    } else {
        gpucall_text_put(t, "null");
    }
    gpucall_text_put(t, ",\"frames\":[");
    for (unsigned i = 0; i < f->trace->n && t->max - t->n > ROOM; i++) {
        struct place place;
        gpucall_place_find(f->trace->pc[i], &place);
        gpucall_text_put(t, i ? "," : "");
        gpucall_put_json_place(t, &place);
    }
    gpucall_text_put(t, "],\"python\":[");
    put_json_python_frames(t);
    gpucall_text_put(t, "],\"text\":\"");
    gpucall_text_put_escaped(t, f->record->call);
    gpucall_text_put(t, " = ");
    gpucall_put_error(t, f->record->api, f->record->result);
    gpucall_text_put(t, "\"}\n");
}
