//! Random drives whose truth is known.
//!
//! The numbers are drawn from what data sheets and papers have: nothing here knows how a parameter is
//! found. The seeds of [`HELD_OUT`] were drawn from the kernel's random source and written down before
//! the first method was; nobody looks at what they give while a method is made.

use rand::RngExt;
use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;

/// Seeds of the drives that methods are made with.
pub(crate) const OPEN: std::ops::RangeInclusive<u64> = 1..=20;

/// Seeds of the drives that methods are judged with, at the end only.
pub(crate) const HELD_OUT: [u64; 10] = [
    4704957446561940116,
    8325687268891311837,
    4408818790683216690,
    5553255582954428385,
    17008265974252285863,
    12183905287405092428,
    7504658135958985816,
    5405445767838894632,
    933829874444657776,
    13737727593207246289,
];

/// Most flash of a drive: methods that write the whole of it are run on each.
const RAW_MOST: u64 = 12 << 30;

/// Least: so that there are enough pages in each die.
const RAW_LEAST: u64 = 512 << 20;

/// A drive file.
pub(crate) fn random(seed: u64) -> String {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    loop {
        let text = Draw { rng: &mut rng }.file(seed);
        if mynah_drive_file::parse("random drive", &text, &[]).is_ok() {
            return text;
        }
    }
}

struct Draw<'a> {
    rng: &'a mut Xoshiro256PlusPlus,
}

impl Draw<'_> {
    fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.rng.random_range(0..of.len())]
    }

    fn chance(&mut self, share: f64) -> bool {
        self.rng.random_bool(share)
    }

    /// Evenly distributed over the logarithm, to three digits.
    fn about(&mut self, low: f64, high: f64) -> f64 {
        let x = (low.ln() + self.rng.random::<f64>() * (high / low).ln()).exp();
        let scale = 10f64.powf(2.0 - x.log10().floor());
        (x * scale).round() / scale
    }

    fn file(&mut self, seed: u64) -> String {
        let mut text = format!(
            "schema = \"mynah.drive/1\"\nname = \"random-{seed}\"\ndescription = \"A random drive.\"\n"
        );
        let over_provisioning = self.about(5.0, 28.0);
        text += &format!("over_provisioning = \"{over_provisioning}%\"\n");
        let page_kib = self.geometry(&mut text);
        self.flash(&mut text);
        self.bus(&mut text);
        self.front(&mut text);
        self.cache(&mut text);
        self.mapping(&mut text, page_kib);
        self.policies(&mut text);
        text
    }

    fn geometry(&mut self, text: &mut String) -> u64 {
        loop {
            let channels = self.one(&[1u64, 2, 3, 4, 4, 5, 6, 8, 8, 8, 10, 12, 16]);
            let chips = self.one(&[1u64, 1, 2, 2, 3, 4]);
            let dies = self.one(&[1u64, 1, 2, 4]);
            let planes = self.one(&[1u64, 1, 2, 2, 4]);
            let blocks = self.rng.random_range(40..=120);
            let pages = self.one(&[64u64, 96, 128, 192, 256, 384]);
            let page_kib = self.one(&[4u64, 8, 16, 16, 32]);
            let raw = channels * chips * dies * planes * blocks * pages * page_kib * 1024;
            if !(RAW_LEAST..=RAW_MOST).contains(&raw) || chips * dies > 16 {
                continue;
            }
            *text += &format!(
                "[geometry]\nchannels = {channels}\nchips_per_channel = {chips}\n\
                 dies_per_chip = {dies}\nplanes_per_die = {planes}\nblocks_per_plane = {blocks}\n\
                 pages_per_block = {pages}\npage_size = \"{page_kib}KiB\"\npage_spare = \"{}B\"\n",
                page_kib * 128
            );
            return page_kib;
        }
    }

    fn flash(&mut self, text: &mut String) {
        let cell = self.one(&["slc", "mlc", "tlc", "tlc", "tlc", "qlc"]);
        let (read, program) = match cell {
            "slc" => (self.about(3.0, 30.0), self.about(80.0, 300.0)),
            "mlc" => (self.about(30.0, 75.0), self.about(300.0, 900.0)),
            "tlc" => (self.about(35.0, 90.0), self.about(400.0, 1_500.0)),
            _ => (self.about(60.0, 140.0), self.about(1_500.0, 4_000.0)),
        };
        let pages: &[&str] = match cell {
            "mlc" => &["lsb", "msb"],
            "tlc" => &["lsb", "csb", "msb"],
            "qlc" => &["lsb", "csb", "msb", "fourth"],
            _ => &[],
        };
        let read = if pages.is_empty() || self.chance(0.4) {
            format!("\"{read}us\"")
        } else {
            let step = 1.0 + 0.3 * self.rng.random::<f64>();
            let one = |(n, page): (usize, &&str)| {
                format!("{page} = \"{:.1}us\"", read * step.powi(n as i32))
            };
            format!("{{ {} }}", pages.iter().enumerate().map(one).collect::<Vec<_>>().join(", "))
        };
        let erase = self.about(2_000.0, 12_000.0);
        let one_shot = !pages.is_empty() && self.chance(0.3);
        *text += &format!(
            "[flash]\ncell = \"{cell}\"\nread = {read}\nprogram = \"{program}us\"\n\
             erase = \"{erase}us\"\none_shot = {one_shot}\n"
        );
    }

    fn bus(&mut self, text: &mut String) {
        let rate = self.one(&[333, 400, 533, 667, 800, 1_066, 1_200, 1_600, 2_400]);
        let spare = self.chance(0.3);
        *text += &format!(
            "[bus]\nprotocol = \"toggle\"\nrate = \"{rate}MT/s\"\ntransfer_spare = {spare}\n"
        );
    }

    fn front(&mut self, text: &mut String) {
        let generation = self.one(&[3, 3, 4, 4, 5]);
        let lanes = self.one(&[2, 4, 4, 4]);
        let interrupt = self.about(0.3, 3.0);
        *text += &format!(
            "[link]\ngeneration = {generation}\nlanes = {lanes}\ninterrupt = \"{interrupt}us\"\n"
        );
        let cores = self.one(&[1, 2, 3, 4, 4, 6, 8, 16]);
        let read = self.about(0.5, 12.0);
        let write = self.about(0.5, 12.0);
        *text += &format!(
            "[firmware]\ncores = {cores}\nread = \"{read}us\"\nwrite = \"{write}us\"\n\
             trim = \"{write}us\"\nflush = \"{write}us\"\n"
        );
    }

    fn cache(&mut self, text: &mut String) {
        if self.chance(0.1) {
            return;
        }
        let mib = self.one(&[8, 16, 24, 32, 64, 128]);
        let mode = self.one(&["write", "write", "write", "both"]);
        let write_back = self.one(&["eager", "eager", "lru"]);
        let protected = self.chance(0.3);
        *text += &format!(
            "[cache]\nsize = \"{mib}MiB\"\nmode = \"{mode}\"\nwrite_back = \"{write_back}\"\n\
             power_loss_protection = {protected}\n[cache.dram]\nrate = \"{}MT/s\"\n",
            self.one(&[1_600, 2_400, 3_200])
        );
    }

    fn mapping(&mut self, text: &mut String, page_kib: u64) {
        let unit = if page_kib > 4 && self.chance(0.2) { page_kib } else { 4 };
        *text += &format!("[mapping]\nunit = \"{unit}KiB\"\n");
        if self.chance(0.15) {
            let kib = self.one(&[256, 1_024]);
            *text += &format!("table = \"cached\"\n[mapping.cmt]\nsize = \"{kib}KiB\"\n");
        }
        let mut order = ['C', 'W', 'D', 'P'];
        for index in (1..4).rev() {
            order.swap(index, self.rng.random_range(0..=index));
        }
        let order: String = order.iter().collect();
        let placement = self.one(&["static", "striped", "striped", "least-loaded"]);
        *text += &format!("[allocation]\norder = \"{order}\"\nplacement = \"{placement}\"\n");
    }

    fn policies(&mut self, text: &mut String) {
        let victim = self.one(&["greedy", "greedy", "d-choices", "fifo", "cost-benefit"]);
        *text += &format!("[gc]\nvictim = \"{victim}\"\n");
        let multi_plane = self.chance(0.8);
        let precedence = self.one(&["read-first", "read-first", "oldest"]);
        *text +=
            &format!("[scheduler]\nmulti_plane = {multi_plane}\nprecedence = \"{precedence}\"\n");
        if self.chance(0.3) {
            *text += "[scheduler.suspend_program]\nlatency = \"20us\"\n";
            *text += "[scheduler.suspend_erase]\nlatency = \"30us\"\n";
        }
        if self.chance(0.25) {
            let share = self.one(&[3, 5, 8]);
            let dynamic = self.one(&[0, 0, 50]);
            *text += &format!("[slc]\nstatic = \"{share}%\"\ndynamic = \"{dynamic}%\"\n");
        }
    }
}
