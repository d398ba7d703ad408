//! A cursor over the JSON that knows where it is, so that every complaint names the place.

use std::rc::Rc;

use num_bigint::BigInt;
use serde_json::Value;

use crate::error::LoadError;

type LoadResult<T> = Result<T, LoadError>;

#[derive(Clone, Debug)]
pub struct Node<'a> {
    value: &'a Value,
    path: Option<Rc<Path>>,
}

#[derive(Debug)]
struct Path {
    parent: Option<Rc<Path>>,
    step: PathStep,
}

#[derive(Debug)]
enum PathStep {
    Key(String),
    Index(usize),
}

impl<'a> Node<'a> {
    pub fn root(value: &'a Value) -> Node<'a> {
        Node { value, path: None }
    }

    pub fn error(&self, cause: impl Into<String>) -> LoadError {
        let mut steps = Vec::new();
        let mut at = self.path.as_deref();
        while let Some(path) = at {
            steps.push(&path.step);
            at = path.parent.as_deref();
        }
        let mut place = String::new();
        for step in steps.into_iter().rev() {
            match step {
                PathStep::Key(key) if place.is_empty() => place.push_str(key),
                PathStep::Key(key) => place.push_str(&format!(".{key}")),
                PathStep::Index(index) => place.push_str(&format!("[{index}]")),
            }
        }
        if place.is_empty() {
            place.push_str("JSON");
        }
        LoadError {
            place,
            cause: cause.into(),
        }
    }

    fn is_object(&self) -> LoadResult<()> {
        let object = self.value.is_object();
        object
            .then_some(())
            .ok_or_else(|| self.error("expected an object"))
    }

    fn child(&self, value: &'a Value, step: PathStep) -> Node<'a> {
        Node {
            value,
            path: Some(Rc::new(Path {
                parent: self.path.clone(),
                step,
            })),
        }
    }

    /// The member `key`; `None` when it is absent or null.
    pub fn find(&self, key: &str) -> Option<Node<'a>> {
        let value = self.value.get(key).filter(|value| !value.is_null())?;
        Some(self.child(value, PathStep::Key(key.to_owned())))
    }

    pub fn get(&self, key: &str) -> LoadResult<Node<'a>> {
        self.is_object()?;
        self.find(key)
            .ok_or_else(|| self.error(format!("{key} is missing")))
    }

    /// The value as it stands in the JSON.
    pub fn shown(&self) -> String {
        self.value.to_string()
    }

    /// Returns whether it contains an array of exactly these two strings.
    pub fn has(&self, pair: [&str; 2]) -> bool {
        fn has(value: &Value, pair: [&str; 2]) -> bool {
            match value {
                Value::Array(items) => {
                    items.iter().map(Value::as_str).eq(pair.map(Some))
                        || items.iter().any(|item| has(item, pair))
                }
                Value::Object(members) => members.values().any(|member| has(member, pair)),
                _ => false,
            }
        }
        has(self.value, pair)
    }

    /// The elements of an array.
    pub fn items(&self) -> LoadResult<Vec<Node<'a>>> {
        let array = self
            .value
            .as_array()
            .ok_or_else(|| self.error("expected an array"))?;
        Ok(array
            .iter()
            .enumerate()
            .map(|(at, value)| self.child(value, PathStep::Index(at)))
            .collect())
    }

    /// The elements of an array that has exactly `N`.
    pub fn tuple<const N: usize>(&self) -> LoadResult<[Node<'a>; N]> {
        let items = self.items()?;
        let got = items.len();
        items
            .try_into()
            .map_err(|_| self.error(format!("expected {N} elements, found {got}")))
    }

    /// The elements of the array `key`; none when it is absent.
    pub fn list(&self, key: &str) -> LoadResult<Vec<Node<'a>>> {
        self.is_object()?;
        self.find(key).map_or(Ok(Vec::new()), |node| node.items())
    }

    /// The members of an object.
    pub fn members(&self) -> LoadResult<Vec<(&'a str, Node<'a>)>> {
        let object = self
            .value
            .as_object()
            .ok_or_else(|| self.error("expected an object"))?;
        Ok(object
            .iter()
            .map(|(key, value)| (key.as_str(), self.child(value, PathStep::Key(key.clone()))))
            .collect())
    }

    pub fn is_null(&self) -> bool {
        self.value.is_null()
    }

    pub fn str(&self) -> LoadResult<&'a str> {
        self.value
            .as_str()
            .ok_or_else(|| self.error("expected a string"))
    }

    pub fn bool(&self) -> LoadResult<bool> {
        self.value
            .as_bool()
            .ok_or_else(|| self.error("expected true or false"))
    }

    /// The member `key`; false when it is absent.
    pub fn flag(&self, key: &str) -> LoadResult<bool> {
        self.find(key).map_or(Ok(false), |flag| flag.bool())
    }

    /// A number of at most `max`.
    pub fn number(&self, max: u64) -> LoadResult<u64> {
        let number = self
            .value
            .as_u64()
            .ok_or_else(|| self.error("expected a number"))?;
        if number > max {
            return Err(self.error(format!(
                "{number} is more than the {max} that are supported"
            )));
        }
        Ok(number)
    }

    pub fn index(&self, max: u64) -> LoadResult<usize> {
        self.number(max).map(|number| number as usize)
    }

    /// A hexadecimal string, perhaps negative.
    pub fn hex(&self) -> LoadResult<BigInt> {
        let text = self.str()?;
        let (negative, digits) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let digits = digits.strip_prefix("0x").unwrap_or(digits);
        let value =
            BigInt::parse_bytes(digits.as_bytes(), 16).filter(|_| !digits.starts_with(['-', '+']));
        let value =
            value.ok_or_else(|| self.error(format!("{text} is not a hexadecimal number")))?;
        Ok(if negative { -value } else { value })
    }

    /// `{"type": …, "value": …}`.
    pub fn typed(&self) -> LoadResult<(&'a str, Node<'a>)> {
        let value = self
            .value
            .get("value")
            .ok_or_else(|| self.error("value is missing"))?;
        Ok((
            self.get("type")?.str()?,
            self.child(value, PathStep::Key("value".to_owned())),
        ))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_complaint_names_its_place() {
        let value = serde_json::json!({"actions": [{}, {"primitives": [{"op": 3}]}]});
        let root = Node::root(&value);
        let op = &root.get("actions").unwrap().items().unwrap()[1]
            .list("primitives")
            .unwrap()[0]
            .get("op")
            .unwrap();
        assert_eq!(
            op.str().unwrap_err().to_string(),
            "actions[1].primitives[0].op: expected a string"
        );
    }

    #[test]
    fn hexadecimal_numbers() {
        let value = serde_json::json!(["0x1f", "-0x01", "ff", "0x", "--1", "0x-1"]);
        let items = Node::root(&value).items().unwrap();
        assert_eq!(items[0].hex().unwrap(), BigInt::from(31));
        assert_eq!(items[1].hex().unwrap(), BigInt::from(-1));
        assert_eq!(items[2].hex().unwrap(), BigInt::from(255));
        assert!(items[3..].iter().all(|item| item.hex().is_err()));
    }
}
