package shop;

import java.util.List;

public class Shop<T extends Item> implements Closeable {
    private static final int MAX = 10, MIN = 1;
    private List<T> items;

    public Shop(List<T> items) { this.items = items; }

    @Override
    public void close() throws IOException {
        int local = MAX;
        items.forEach(i -> i.drop(local));
    }

    interface Visitor { void visit(Item item); int LIMIT = 3; }
    enum Color { RED, GREEN; Color next() { return values()[0]; } }
    record Point(int x, int y) { Point { assert x > 0; } }
    @interface Marker { String value(); }
}
