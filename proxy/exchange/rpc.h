/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_EXCHANGE_RPC_H
#define SP_EXCHANGE_RPC_H
/* Clients of JSON-RPC 2.0, GraphQL and Connect find a refusal in their own protocol's error form. Pure functions. */
#include "../http/refusal.h"

#define RPC_CONTENT_MAX 65536 /* octets of a refused request's content that are read for the sake of its answer */

/* Before any hostile octet: what the JSON library would otherwise open a file for. */
void rpc_warm(void);
/* A call of the Connect protocol, by its head; of a stream content_type is set. */
bool rpc_connect(struct http_request *r, struct refusal *to);
/* Are the messages of this response compressed one by one (gRPC, Connect), so that nothing can be found in them? */
bool rpc_compressed(struct http_response *r);
/* Might the content of this request be a call? Says so from the head alone. */
bool rpc_expected(struct http_request *r);
/* Sets shape and, for JSON-RPC, the ids (in arena a) of r if content is such a call; otherwise leaves r as it is. */
void rpc_shape(struct arena *a, struct str path, struct str content, struct refusal *r);
#endif
