//! What the shell and `man` know of the command: completions and pages, made from the command line
//! itself.

use crate::args::{Cli, served_faults};
use crate::failure::Failure;
use crate::print;
use clap::{Command, CommandFactory};
use clap_complete::Shell;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};
use mynah_drive_file as drive;
use std::io;
use std::path::Path;

/// Prints a script that completes Mynah's commands in a shell.
pub(crate) fn completions(shell: Shell) -> Result<bool, Failure> {
    print::out(&script(shell))?;
    Ok(false)
}

fn script(shell: Shell) -> String {
    let mut script = Vec::new();
    let mut command = Cli::command().mut_subcommand("serve", |serve| {
        serve.mut_arg("fault", |fault| fault.value_parser(served_faults()))
    });
    clap_complete::generate(shell, &mut command, "mynah", &mut script);
    let script = String::from_utf8_lossy(&script);
    let names: Vec<_> = drive::shipped().iter().map(|drive| drive.name).collect();
    // A drive is a name or a file, and what is generated knows only one or the other. Bash turns to
    // files by itself when no name fits.
    match shell {
        Shell::Fish => {
            let is_drive = |line: &str| line.contains(&format!("-a \"{}\\t", names[0]));
            script
                .split_inclusive('\n')
                .map(|line| match is_drive(line) {
                    true => line.replacen(" -r -f -a ", " -r -F -a ", 1),
                    false => line.to_owned(),
                })
                .collect()
        }
        Shell::Zsh => {
            let names = names.join(" ");
            let both = format!(
                r#":{{_alternative "drives\:drive\:({names})" "files\:drive file\:_files"}}"#
            );
            script.replace(&format!(":({names})"), &both)
        }
        _ => script.into_owned(),
    }
}

/// Writes a page for each verb into a folder.
pub(crate) fn man(folder: &Path) -> Result<bool, Failure> {
    let failed = |error: io::Error| {
        let help = "give a folder for the pages, as in `mynah man ~/.cargo/share/man/man1`";
        Failure::usage(format!("{}: {error}", folder.display()), Some(help))
    };
    std::fs::create_dir_all(folder).map_err(failed)?;
    let mut command = Cli::command().disable_help_subcommand(true);
    command.build();
    write_pages(&command, folder).map_err(failed)?;
    let first = folder.join("mynah.1");
    print::out(&format!("`man -l {}` reads the first of the pages\n", first.display()))?;
    Ok(false)
}

fn write_pages(command: &Command, folder: &Path) -> io::Result<()> {
    for command in command.get_subcommands().filter(|command| !command.is_hide_set()) {
        write_pages(command, folder)?;
    }
    let man = Man::new(command.clone());
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    if command.has_subcommands() {
        man.render_subcommands_section(&mut page)?;
    }
    let more = command.get_after_long_help().or(command.get_after_help());
    if let Some(more) = more {
        let more = more.to_string();
        let mut roff = Roff::default();
        roff.control("SH", ["EXAMPLES"]);
        // As they stand: these are commands and tables, not paragraphs.
        roff.control("nf", []);
        for line in more.lines().filter(|line| *line != "Examples:") {
            roff.text([roman(line)]);
        }
        roff.control("fi", []);
        roff.to_writer(&mut page)?;
    }
    std::fs::write(folder.join(man.get_filename()), page)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All commands, with the names of their pages.
    fn all(command: &Command, name: &str, into: &mut Vec<(String, Command)>) {
        into.push((name.to_owned(), command.clone()));
        for verb in command.get_subcommands().filter(|verb| verb.get_name() != "help") {
            all(verb, &format!("{name}-{}", verb.get_name()), into);
        }
    }

    #[test]
    fn every_verb_has_a_page_with_all_its_options() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("new/man1");
        man(&folder).ok().unwrap();
        let mut commands = Vec::new();
        let mut command = Cli::command();
        command.build();
        all(&command, "mynah", &mut commands);
        assert!(commands.len() > 12, "{}", commands.len());
        for (name, command) in commands {
            let page = std::fs::read_to_string(folder.join(format!("{name}.1"))).unwrap();
            // Hyphens are escaped, so that they stay hyphens.
            let page = page.replace("\\-", "-");
            assert!(page.contains(".SH NAME"), "{name}");
            for arg in command.get_arguments().filter(|arg| !arg.is_hide_set()) {
                let Some(long) = arg.get_long() else { continue };
                assert!(page.contains(&format!("--{long}")), "{name}: --{long}");
            }
        }
        let serve = std::fs::read_to_string(folder.join("mynah-serve.1")).unwrap();
        assert!(serve.replace("\\-", "-").contains("mynah serve --drives 2"), "{serve}");
    }

    #[test]
    fn a_folder_that_cannot_be_is_said() {
        assert!(matches!(man(Path::new("/dev/null/man1")), Err(Failure::Usage(_))));
    }

    #[test]
    fn shells_complete_names_of_drives_and_kinds_and_files() {
        let names: Vec<_> = drive::shipped().iter().map(|drive| drive.name).collect();
        let bash = script(Shell::Bash);
        assert!(bash.contains(&format!("compgen -W \"{}\"", names.join(" "))), "{bash}");
        assert!(
            bash.contains("compgen -W \"mqsim msr blkparse fio alibaba tencent systor17 fiu spc\""),
            "{bash}"
        );
        assert!(bash.contains("compgen -W \"ram pattern file:\""), "{bash}");
        assert!(bash.contains("power-cut:at=2s ") && bash.contains("connection-cut:at=5s "));
        assert!(bash.contains("-o bashdefault -o default"), "files are what is left");
        let zsh = script(Shell::Zsh);
        let both = format!("({})\" \"files\\:drive file\\:_files\"", names.join(" "));
        assert!(zsh.contains(&both), "{zsh}");
        let alone = zsh.replace(&both, "");
        assert!(!alone.contains(&format!("({})", names.join(" "))), "{alone}");
        let fish = script(Shell::Fish);
        let line = fish.lines().find(|line| line.contains("using_subcommand sim\" -l drive "));
        assert!(line.is_some_and(|line| line.contains(" -r -F -a ")), "{line:?}");
        for name in names {
            assert!(fish.contains(&format!("{name}\\t")), "{name}");
        }
    }
}
