//! The drives that ship with Mynah.

/// The drive where none is named.
pub const DEFAULT_DRIVE: &str = "enterprise-tlc";
/// The drive where none is named, and pairs are wanted.
pub const DEFAULT_KEY_VALUE_DRIVE: &str = "kv-tlc";

/// A drive that ships with Mynah.
#[derive(Clone, Copy, Debug)]
pub struct Shipped {
    /// The name by which it is loaded.
    pub name: &'static str,
    /// Its file.
    pub text: &'static str,
    /// What is known of the real one (`mynah_lab::evidence` reads it).
    pub evidence: &'static str,
}

/// Every shipped drive, [`DEFAULT_DRIVE`] first.
pub fn shipped() -> &'static [Shipped] {
    macro_rules! drives {
        ($($name:literal),+ $(,)?) => {
            &[$(Shipped {
                name: $name,
                text: include_str!(concat!("../../../drives/", $name, ".toml")),
                evidence: include_str!(concat!("../../../drives/evidence/", $name, ".toml")),
            }),+]
        };
    }
    drives![
        "enterprise-tlc",
        "mqsim-table3",
        "mqsim",
        "samsung-970-pro",
        "samsung-48l-tlc",
        "qlc-p4320",
        "z-nand-sz985",
        "optane-p4800x",
        "sata-850-pro",
        "samsung-pm9a3",
        "samsung-980-pro",
        "samsung-980-pro-1tb",
        "wd-sn580",
        "xpg-atom-50",
        "lexar-nm790",
        "crucial-p1",
        "samsung-870-qvo",
        "kv-tlc",
        "moke",
        "samsung-kv",
        "eemu-baseline",
        "eemu-samsung",
        "samsung-ethernet",
        "offloaded-target",
        "kioxia-em6",
    ]
}
