pub const MAX: usize = 10;
static mut COUNTER: u32 = 0;
pub struct Store<T> { items: Vec<T>, pub name: String }
pub enum Shape { Circle(f64), Square { side: f64 } }
pub trait Area { type Out; fn area(&self) -> f64; fn twice(&self) -> f64 { self.area() * 2.0 } }
impl<T: Clone> Store<T> {
    pub fn push(&mut self, item: T) -> usize {
        let local = item;
        self.items.push(local);
        self.items.len()
    }
}
impl Area for Shape { type Out = f64; fn area(&self) -> f64 { match self { Shape::Circle(r) => r * r, Shape::Square { side } => side * side } } }
mod inner { pub fn helper() -> super::Store<u8> { todo!() } }
macro_rules! shout { ($x:expr) => { println!("{}", $x) }; }
type Alias = Store<u8>;
