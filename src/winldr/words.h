/* What the model of Windows' loader found, in words. The texts are in the arena given, or in that
 * of the process. */
#ifndef GPUMEND_WINLDR_WORDS_H
#define GPUMEND_WINLDR_WORDS_H

#include "winldr/process.h"

/* "[WinError 126] The specified module could not be found". */
const char *winldr_error_text(struct arena *a, enum winldr_code code);

/* What Windows does not say: "cublas64_12.dll, which ctranslate2.dll imports, was not found". */
const char *winldr_load_cause(const struct winldr_process *p, const struct winldr_load *load);

/* "x.dll, which y.dll imports,"; without an importer the name alone. */
const char *winldr_request_text(const struct winldr_process *p, const struct winldr_request *r);

#endif
