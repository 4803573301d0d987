//! Says which of Cargo's profiles the program is built by, for `mynah --version`: `release` and `dist`
//! compute the same, but not as fast. Cargo tells scripts only whether it is optimised; the name is in
//! the path of what they write, `target/PROFILE/build/…`.

use std::env;
use std::path::PathBuf;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let out = env::var_os("OUT_DIR").map(PathBuf::from).unwrap_or_default();
    let mut above = out.ancestors().skip_while(|path| !path.ends_with("build")).skip(1);
    let folder = above.next().and_then(|path| path.file_name()?.to_str()).unwrap_or("unknown");
    // The profile `dev` has this folder.
    let profile = if folder == "debug" { "dev" } else { folder };
    println!("cargo::rustc-env=MYNAH_PROFILE={profile}");
}
