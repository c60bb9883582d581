/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_SECRETS_AWSKEY_H
#define SP_SECRETS_AWSKEY_H
/*
 * AWS credentials: the long-lived key stays here; what is released is the signing key of one day, region and service (AWS
 * general reference, "Signature Version 4": kSigning), good for nothing else.
 */
#include "../../common/base/str.h"

#define AWSKEY_MAX 4600
/*
 * value: KEY_ID:KEY[:SESSION_TOKEN], or JSON with these as Vault's AWS engine, `aws sts` or a credential_process gives them.
 * "HEX64 YYYYMMDD KEY_ID[ SESSION_TOKEN]" into out. False: *cause says why, without the value.
 */
bool awskey_release(struct str value, uint64_t now_s, struct str region, struct str service, char out[AWSKEY_MAX], const char **cause);
#endif
