//! Keys of any hash function for OpenSSL's TLS 1.3.
//!
//! OpenSSL takes a pre-shared key as a session: a master key, a cipher suite and a protocol
//! version. The openssl crate has no functions for that, so they are declared here, as
//! OpenSSL 3.0's headers and manual pages (SSL_CTX_set_psk_find_session_callback,
//! SSL_CTX_set_psk_use_session_callback, SSL_SESSION_set1_master_key) have them.

#![allow(unsafe_code)]

use foreign_types::ForeignTypeRef;
use mynah_wire::authentication::Hash;
use mynah_wire::tls_key::TlsPsk;
use openssl::error::ErrorStack;
use openssl::ex_data::Index;
use openssl::ssl::{Ssl, SslContext, SslContextBuilder, SslRef};
use openssl_sys::{EVP_MD, SSL, SSL_CIPHER, SSL_CTX, SSL_SESSION, SSL_SESSION_free};
use std::ffi::{c_int, c_uchar};
use std::ptr;
use std::sync::OnceLock;

type FindSession =
    unsafe extern "C" fn(*mut SSL, *const c_uchar, usize, *mut *mut SSL_SESSION) -> c_int;
type UseSession = unsafe extern "C" fn(
    *mut SSL,
    *const EVP_MD,
    *mut *const c_uchar,
    *mut usize,
    *mut *mut SSL_SESSION,
) -> c_int;

unsafe extern "C" {
    fn SSL_CTX_set_psk_find_session_callback(context: *mut SSL_CTX, callback: Option<FindSession>);
    fn SSL_CTX_set_psk_use_session_callback(context: *mut SSL_CTX, callback: Option<UseSession>);
    fn SSL_SESSION_new() -> *mut SSL_SESSION;
    fn SSL_SESSION_set1_master_key(
        session: *mut SSL_SESSION,
        key: *const c_uchar,
        bytes: usize,
    ) -> c_int;
    fn SSL_SESSION_set_cipher(session: *mut SSL_SESSION, cipher: *const SSL_CIPHER) -> c_int;
    fn SSL_SESSION_set_protocol_version(session: *mut SSL_SESSION, version: c_int) -> c_int;
    fn SSL_CIPHER_find(ssl: *mut SSL, id: *const c_uchar) -> *const SSL_CIPHER;
}

/// Finds the key that an identity names, and whose it is.
pub(super) type Find = Box<dyn Fn(&[u8]) -> Option<(TlsPsk, String)> + Send + Sync>;

/// Where contexts keep what the callbacks need.
struct Places {
    find: Index<SslContext, Find>,
    own: Index<SslContext, TlsPsk>,
    host_nqn: Index<Ssl, String>,
}

static PLACES: OnceLock<Places> = OnceLock::new();

fn places() -> Result<&'static Places, ErrorStack> {
    if let Some(places) = PLACES.get() {
        return Ok(places);
    }
    let places = Places {
        find: SslContext::new_ex_index()?,
        own: SslContext::new_ex_index()?,
        host_nqn: Ssl::new_ex_index()?,
    };
    // Somebody else may have been faster; a few indexes are unused then.
    Ok(PLACES.get_or_init(|| places))
}

/// Has the controllers' ends of connections ask `find` for keys.
pub(super) fn accept_with(builder: &mut SslContextBuilder, find: Find) -> Result<(), ErrorStack> {
    builder.set_ex_data(places()?.find, find);
    // SAFETY: the context is alive, and the callback has the declared type.
    unsafe { SSL_CTX_set_psk_find_session_callback(builder.as_ptr(), Some(find_session)) };
    Ok(())
}

/// Has hosts' ends of connections use `psk`.
pub(super) fn connect_with(builder: &mut SslContextBuilder, psk: TlsPsk) -> Result<(), ErrorStack> {
    builder.set_ex_data(places()?.own, psk);
    // SAFETY: the context is alive, and the callback has the declared type.
    unsafe { SSL_CTX_set_psk_use_session_callback(builder.as_ptr(), Some(use_session)) };
    Ok(())
}

/// The host whose key was found for a connection.
pub(super) fn host_nqn(ssl: &SslRef) -> Option<&str> {
    ssl.ex_data(PLACES.get()?.host_nqn).map(String::as_str)
}

/// The key as a session that the caller owns; null if there is no memory.
///
/// # Safety
/// `ssl` is alive.
unsafe fn session(ssl: *mut SSL, psk: &TlsPsk) -> *mut SSL_SESSION {
    const TLS_1_3: c_int = 0x0304;
    // TLS_AES_256_GCM_SHA384 and TLS_AES_128_GCM_SHA256 (RFC 8446, appendix B.4).
    let id: [c_uchar; 2] = if psk.hash == Hash::Sha384 { [0x13, 2] } else { [0x13, 1] };
    // SAFETY: `ssl` is alive by contract; `id` has the two bytes that are read; the session is
    // ours until it is returned, and freed if it is not; the key has as many bytes as stated.
    unsafe {
        let cipher = SSL_CIPHER_find(ssl, id.as_ptr());
        let session = SSL_SESSION_new();
        if session.is_null() {
            return session;
        }
        if cipher.is_null()
            || SSL_SESSION_set1_master_key(session, psk.key.as_ptr(), psk.key.len()) != 1
            || SSL_SESSION_set_cipher(session, cipher) != 1
            || SSL_SESSION_set_protocol_version(session, TLS_1_3) != 1
        {
            SSL_SESSION_free(session);
            return ptr::null_mut();
        }
        session
    }
}

/// The controller's end looks up an identity. Without a session the handshake goes on without
/// a key, and fails because there is no certificate.
unsafe extern "C" fn find_session(
    ssl: *mut SSL,
    identity: *const c_uchar,
    bytes: usize,
    found: *mut *mut SSL_SESSION,
) -> c_int {
    // SAFETY: OpenSSL gives a connection that is alive and nobody else uses meanwhile, an
    // identity of so many bytes, and a place for the session.
    unsafe {
        *found = ptr::null_mut();
        if identity.is_null() {
            return 1;
        }
        let identity = std::slice::from_raw_parts(identity, bytes);
        let connection = SslRef::from_ptr_mut(ssl);
        let Some(places) = PLACES.get() else { return 0 };
        let find = connection.ssl_context().ex_data(places.find);
        if let Some((psk, host_nqn)) = find.and_then(|find| find(identity)) {
            connection.set_ex_data(places.host_nqn, host_nqn);
            *found = session(ssl, &psk);
        }
    }
    1
}

/// The host's end says which key it uses.
unsafe extern "C" fn use_session(
    ssl: *mut SSL,
    _digest: *const EVP_MD,
    identity: *mut *const c_uchar,
    bytes: *mut usize,
    used: *mut *mut SSL_SESSION,
) -> c_int {
    // SAFETY: OpenSSL gives a connection that is alive and places for the answers. The identity
    // lives in the context, which lives as long as its connections. Only the key's own cipher
    // suite is allowed on the connection, so its digest is the one that is asked for.
    unsafe {
        *used = ptr::null_mut();
        let connection = SslRef::from_ptr(ssl);
        let Some(places) = PLACES.get() else { return 0 };
        let Some(psk) = connection.ssl_context().ex_data(places.own) else { return 0 };
        *identity = psk.identity.as_ptr();
        *bytes = psk.identity.len();
        *used = session(ssl, psk);
        c_int::from(!(*used).is_null())
    }
}
