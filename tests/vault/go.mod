module vaultd

go 1.20

require (
	github.com/hashicorp/vault v1.15.2
	github.com/hashicorp/vault-plugin-auth-jwt v0.17.0
	github.com/hashicorp/vault-plugin-auth-kubernetes v0.17.1
	github.com/hashicorp/vault-plugin-secrets-kv v0.16.1
)

// what its own tree is built with, at the versions that were published of them
replace (
	github.com/hashicorp/vault/api => github.com/hashicorp/vault/api v1.10.0
	github.com/hashicorp/vault/sdk => github.com/hashicorp/vault/sdk v0.10.2
)
