/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_PKCS12_H
#define SP_PKCS12_H
#include <openssl/x509.h>

#include "base/buf.h"
#include "base/err.h"

#define PKCS12_PASSWORD "changeit" /* what Java expects when nobody says another; nothing in the store is secret */

/*
 * Appends a PKCS #12 store of trusted certificates as Java likes it. They are not encrypted (they are public, and some
 * runtimes open their own cacerts without a password); the MAC is there for those that give one.
 */
int pkcs12_trust_store(const STACK_OF(X509) * certs, struct buf *out, struct err *err);
#endif
