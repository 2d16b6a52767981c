/* What the C library's elf.h asks for. */
#ifndef GPUMEND_BASE_WINDOWS_INCLUDE_FEATURES_H
#define GPUMEND_BASE_WINDOWS_INCLUDE_FEATURES_H

#define __BEGIN_DECLS
#define __END_DECLS

#endif
