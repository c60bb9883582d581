// SPDX-License-Identifier: Apache-2.0

// A real Vault core on a loopback port, for tests/e2e/vault-real.sh: everything in memory, one unseal key, TLS. KV, AppRole,
// certificates, JWT, and an engine of its own whose credentials have leases.
//
//	vaultd PORT CERT KEY      prints "root TOKEN" and "key KEY" when it is there
package main

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/hex"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	log "github.com/hashicorp/go-hclog"
	jwtauth "github.com/hashicorp/vault-plugin-auth-jwt"
	kubeauth "github.com/hashicorp/vault-plugin-auth-kubernetes"
	kv "github.com/hashicorp/vault-plugin-secrets-kv"
	"github.com/hashicorp/vault/builtin/credential/approle"
	"github.com/hashicorp/vault/builtin/credential/cert"
	vaulthttp "github.com/hashicorp/vault/http"
	"github.com/hashicorp/vault/internalshared/configutil"
	"github.com/hashicorp/vault/sdk/framework"
	"github.com/hashicorp/vault/sdk/helper/consts"
	"github.com/hashicorp/vault/sdk/logical"
	"github.com/hashicorp/vault/sdk/physical/inmem"
	"github.com/hashicorp/vault/vault"
)

type none struct{}

func (none) Contains(string, consts.PluginType) bool                           { return false }
func (none) Get(string, consts.PluginType) (func() (interface{}, error), bool) { return nil, false }
func (none) Keys(consts.PluginType) []string                                   { return nil }
func (none) DeprecationStatus(string, consts.PluginType) (consts.DeprecationStatus, bool) {
	return consts.Unknown, false
}
func (none) IsBuiltinEntPlugin(string, consts.PluginType) bool { return false }

// creds: a secrets engine whose credentials have leases: NAME/creds/ROLE; ttl and max_ttl in seconds are set at NAME/role/ROLE.
func creds(ctx context.Context, c *logical.BackendConfig) (logical.Backend, error) {
	type role struct{ TTL, Max int }
	b := &framework.Backend{BackendType: logical.TypeLogical}
	get := func(ctx context.Context, s logical.Storage, name string) (r role, err error) {
		r = role{60, 120}
		e, err := s.Get(ctx, "role/"+name)
		if err == nil && e != nil {
			err = e.DecodeJSON(&r)
		}
		return r, err
	}
	secret := &framework.Secret{Type: "creds", Fields: map[string]*framework.FieldSchema{"access_key": {Type: framework.TypeString}, "secret_key": {Type: framework.TypeString}},
		Renew: func(ctx context.Context, q *logical.Request, d *framework.FieldData) (*logical.Response, error) {
			r, err := get(ctx, q.Storage, q.Secret.InternalData["role"].(string))
			if err != nil {
				return nil, err
			}
			a := &logical.Response{Secret: q.Secret}
			a.Secret.TTL, a.Secret.MaxTTL = time.Duration(r.TTL)*time.Second, time.Duration(r.Max)*time.Second
			return a, nil
		},
		Revoke: func(ctx context.Context, q *logical.Request, d *framework.FieldData) (*logical.Response, error) {
			return nil, nil
		}}
	b.Secrets = []*framework.Secret{secret}
	b.Paths = []*framework.Path{
		{Pattern: "role/" + framework.GenericNameRegex("name"), Fields: map[string]*framework.FieldSchema{"name": {Type: framework.TypeString}, "ttl": {Type: framework.TypeInt}, "max_ttl": {Type: framework.TypeInt}},
			Operations: map[logical.Operation]framework.OperationHandler{logical.UpdateOperation: &framework.PathOperation{Callback: func(ctx context.Context, q *logical.Request, d *framework.FieldData) (*logical.Response, error) {
				e, err := logical.StorageEntryJSON("role/"+d.Get("name").(string), role{d.Get("ttl").(int), d.Get("max_ttl").(int)})
				if err == nil {
					err = q.Storage.Put(ctx, e)
				}
				return nil, err
			}}}},
		{Pattern: "creds/" + framework.GenericNameRegex("name"), Fields: map[string]*framework.FieldSchema{"name": {Type: framework.TypeString}},
			Operations: map[logical.Operation]framework.OperationHandler{logical.ReadOperation: &framework.PathOperation{Callback: func(ctx context.Context, q *logical.Request, d *framework.FieldData) (*logical.Response, error) {
				name := d.Get("name").(string)
				r, err := get(ctx, q.Storage, name)
				if err != nil {
					return nil, err
				}
				x := make([]byte, 20)
				rand.Read(x)
				a := secret.Response(map[string]interface{}{"access_key": "AKIA" + hex.EncodeToString(x[:8]), "secret_key": hex.EncodeToString(x)}, map[string]interface{}{"role": name})
				a.Secret.TTL, a.Secret.MaxTTL, a.Secret.Renewable = time.Duration(r.TTL)*time.Second, time.Duration(r.Max)*time.Second, true
				return a, nil
			}}}},
	}
	return b, b.Setup(ctx, c)
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func main() {
	port, crt, key := os.Args[1], os.Args[2], os.Args[3]
	logger := log.New(&log.LoggerOptions{Level: log.Warn, Output: os.Stderr})
	store, err := inmem.NewInmem(nil, logger)
	must(err)
	addr := "https://127.0.0.1:" + port
	core, err := vault.NewCore(&vault.CoreConfig{Physical: store, Logger: logger, DisableMlock: true, RedirectAddr: addr, BuiltinRegistry: none{},
		LogicalBackends:    map[string]logical.Factory{"kv": kv.Factory, "creds": creds},
		CredentialBackends: map[string]logical.Factory{"approle": approle.Factory, "cert": cert.Factory, "jwt": jwtauth.Factory, "kubernetes": kubeauth.Factory}})
	must(err)
	ctx := context.Background()
	r, err := core.Initialize(ctx, &vault.InitParams{BarrierConfig: &vault.SealConfig{SecretShares: 1, SecretThreshold: 1}, RecoveryConfig: &vault.SealConfig{}})
	must(err)
	_, err = core.Unseal(r.SecretShares[0])
	must(err)
	pair, err := tls.LoadX509KeyPair(crt, key)
	must(err)
	l, err := net.Listen("tcp", "127.0.0.1:"+port)
	must(err)
	s := &http.Server{Handler: vaulthttp.Handler.Handler(&vault.HandlerProperties{Core: core, ListenerConfig: &configutil.Listener{}}),
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequestClientCert, MinVersion: tls.VersionTLS12}}
	fmt.Printf("root %s\nkey %s\n", r.RootToken, hex.EncodeToString(r.SecretShares[0]))
	must(s.ServeTLS(l, "", ""))
}
