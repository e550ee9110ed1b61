/* SPDX-License-Identifier: Apache-2.0 */
/* What the two halves of the library, C and Go, know of each other. */
#ifndef QUARK_GO_H
#define QUARK_GO_H

#include "quark.h"

/* The length of a message of an error, with its NUL. */
#define MESSAGE_LENGTH 1024

/*
 * Memory of C that Go fills. used is the needed size. If it exceeds size, C allocates used bytes
 * and calls Go again.
 */
struct block {
	struct block *next;
	void *data;
	size_t size;
	size_t used;
};

#endif
