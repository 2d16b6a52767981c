/* Windows runs on little-endian processors alone. */
#ifndef GPUMEND_BASE_WINDOWS_INCLUDE_ENDIAN_H
#define GPUMEND_BASE_WINDOWS_INCLUDE_ENDIAN_H

#define le64toh(x) (x)

#endif
