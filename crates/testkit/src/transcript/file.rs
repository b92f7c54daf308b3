//! The transcript file: steps, their directives, requests and recorded responses.

/// One step of a transcript.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Step {
    /// The title of the step.
    pub title: String,
    /// Directives, without the `! `.
    pub notes: Vec<String>,
    /// Method and path; `None` for a step that sends nothing.
    pub request: Option<(String, String)>,
    /// Header lines as written.
    pub headers: Vec<String>,
    /// Lines of the body.
    pub body: Vec<String>,
    /// The recorded response: head lines (`< …`) and body lines.
    pub expect: Vec<String>,
}

impl Step {
    /// The arguments of every directive of that name.
    pub fn notes_of<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.notes.iter().filter_map(move |note| {
            let (first, rest) = note.split_once(char::is_whitespace).unwrap_or((note, ""));
            (first == name).then(|| rest.trim_start())
        })
    }

    /// The arguments of the first directive of that name.
    pub fn note<'a>(&'a self, name: &'a str) -> Option<&'a str> {
        self.notes_of(name).next()
    }

    /// The step as text, with its recorded response.
    pub fn render(&self) -> String {
        let mut lines = vec![format!("=== {}", self.title)];
        lines.extend(self.notes.iter().map(|note| format!("! {note}")));
        if let Some((method, path)) = &self.request {
            lines.push(format!("> {method} {path}"));
            lines.extend(self.headers.iter().map(|header| format!("> {header}")));
            lines.extend(self.body.iter().cloned());
        }
        lines.extend(self.expect.iter().cloned());
        format!("{}\n", lines.join("\n").trim_end())
    }
}

/// A transcript: the comment before the first step, and the steps.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Transcript {
    /// The comment lines.
    pub head: String,
    /// The steps in order.
    pub steps: Vec<Step>,
}

impl Transcript {
    /// The transcript as the text of a file.
    pub fn render(&self) -> String {
        let head = if self.head.is_empty() { String::new() } else { format!("{}\n\n", self.head) };
        let steps: Vec<String> = self.steps.iter().map(Step::render).collect();
        head + &steps.join("\n")
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Directives,
    RequestHead,
    RequestBody,
    AnswerHead,
    AnswerBody,
}

/// Parses a transcript. Parsing never fails: unexpected lines are ignored.
pub fn parse(text: &str) -> Transcript {
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    let (mut head, mut steps, mut part) = (Vec::new(), Vec::<Step>::new(), Part::Directives);
    for line in text.split('\n') {
        if let Some(title) = line.strip_prefix("=== ") {
            steps.push(Step { title: title.trim().to_owned(), ..Step::default() });
            part = Part::Directives;
            continue;
        }
        match steps.last_mut() {
            None => head.push(line),
            Some(step) => part = add_line(step, part, line),
        }
    }
    for step in &mut steps {
        drop_blank_end(&mut step.body);
        drop_blank_end(&mut step.expect);
    }
    Transcript { head: head.join("\n").trim().to_owned(), steps }
}

fn add_line(step: &mut Step, part: Part, line: &str) -> Part {
    let asking = matches!(part, Part::Directives | Part::RequestHead);
    if let (Part::Directives, Some(note)) = (part, line.strip_prefix("! ")) {
        step.notes.push(note.trim().to_owned());
        return part;
    }
    if asking && let Some(rest) = line.strip_prefix("> ") {
        if part == Part::RequestHead {
            step.headers.push(rest.to_owned());
        } else {
            let (method, path) = rest.trim_start().split_once(char::is_whitespace).unwrap_or((rest, ""));
            step.request = Some((method.to_owned(), path.trim_start().to_owned()));
        }
        return Part::RequestHead;
    }
    if part != Part::AnswerBody && (line == "<" || line.starts_with("< ")) {
        step.expect.push(line.to_owned());
        return Part::AnswerHead;
    }
    match part {
        Part::Directives => part,
        Part::RequestHead | Part::RequestBody => {
            step.body.push(line.to_owned());
            Part::RequestBody
        }
        Part::AnswerHead | Part::AnswerBody => {
            step.expect.push(line.to_owned());
            Part::AnswerBody
        }
    }
}

fn drop_blank_end(lines: &mut Vec<String>) {
    while lines.last().is_some_and(|line| line.trim().is_empty()) {
        lines.pop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "# Why.

=== create it
! as alice
! ignore /metadata/managedFields
> POST /api/v1/namespaces/$NS/configmaps?x=1
> Content-Type: application/json
{\"a\":
  1}
< 201
< Content-Type: application/json
{
 \"kind\": \"X\"
}

=== silence
! events w none
<
";

    #[test]
    fn parses_and_renders() {
        let transcript = parse(FILE);
        let [create, silence] = &transcript.steps[..] else { panic!("two steps") };
        assert_eq!(transcript.head, "# Why.");
        assert_eq!(create.note("as"), Some("alice"));
        assert_eq!(create.note("until"), None);
        assert_eq!(
            create.request.clone().unwrap(),
            ("POST".into(), "/api/v1/namespaces/$NS/configmaps?x=1".into())
        );
        assert_eq!(create.headers, ["Content-Type: application/json"]);
        assert_eq!(create.body, ["{\"a\":", "  1}"]);
        assert_eq!(create.expect.len(), 5);
        assert_eq!(silence.note("events"), Some("w none"));
        assert_eq!((silence.request.clone(), &silence.expect[..]), (None, &["<".to_owned()][..]));
        assert_eq!(transcript.render(), FILE);
    }
}
