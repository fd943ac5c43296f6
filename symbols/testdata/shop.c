#include <stdio.h>
#define MAX_ITEMS 10
#define SQUARE(x) ((x) * (x))

typedef unsigned long id_t;
typedef int (*compare_fn)(const void *, const void *);

struct item {
	id_t id;
	char *name, *label;
	int (*drop)(struct item *);
};

typedef struct { int x, y; } point_t;

enum color { RED, GREEN = 2 };

static int counter = 0;
int add(int a, int b);

static struct item *find(struct item *all, id_t id)
{
	struct item *it = all;
	int found = add(1, SQUARE(2));
	return it;
}

int add(int a, int b) { return a + b + counter; }
