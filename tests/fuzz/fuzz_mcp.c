/* Messages of an assistant, with a command that answers a document of the message's own bytes. */
#include <stdlib.h>

#include "mcp/server.h"

static void run(void *arg, struct arena *a, const char *const *words, size_t n, struct str input,
                struct mcp_ran *ret)
{
    (void)words;
    (void)a;
    const struct str *message = arg;
    bool echo = n % 2 == 0;
    ret->status = echo ? 0 : 1;
    ret->output = echo ? *message : input;
    ret->errors = echo ? input : *message;
}

static const char *allow(void *arg, struct arena *a, const char *path)
{
    (void)arg;
    (void)a;
    return path && path[0] == '.' ? NULL : path ? path : "";
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);
int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    struct arena a;
    arena_init(&a, 64 << 20, NULL, NULL);
    struct str message = {(const char *)data, size};
    const struct mcp_server s = {.version = "1", .arg = &message, .run = run, .allow = allow};
    json_t *answer = mcp_handle(&s, &a, message);
    if (answer) {
        char *text = json_dumps(answer, JSON_COMPACT); // every answer is valid JSON
        if (!text || !json_object_get(answer, "jsonrpc") || !json_object_get(answer, "id")) {
            abort();
        }
        free(text);
    }
    json_decref(answer);
    arena_release(&a);
    return 0;
}
